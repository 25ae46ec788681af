# SPDX-License-Identifier: Apache-2.0
"""Random numbers of operators: dropout's masks, rand, normal_. The card has none. The CPU's kernel
draws them (run_on_cpu.py, compile/host_nodes.py) from the generator of the card,
`torch.spyre.random`, and they are moved to the card."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import torch

from .. import _C
from .._pytorch.dispatch import Arguments, Keywords, OpOverload, schema_of


def check_generators(leaves: Iterable[object], device: torch.device | None) -> None:
    """Raises: RuntimeError for a generator of another device than the operator's tensors, in
    PyTorch's words. A generator of the card brings tensors of the CPU alone here, too: no device
    of the card."""
    wanted = torch.device("spyre", _card_of(device)) if device else torch.device("cpu")
    for leaf in leaves:
        if isinstance(leaf, torch.Generator) and leaf.device != wanted:
            raise RuntimeError(
                f"Expected a '{wanted}' device type for generator but found '{leaf.device}'"
            )


def _card_of(device: torch.device) -> int:
    return _C.current_device() if device.index is None else device.index


class Generators:
    """The CPU's copies of the generators that one call names."""

    def __init__(self) -> None:
        self._copies: list[tuple[torch.Generator, torch.Generator]] = []  # original, copy

    def copy(self, original: torch.Generator) -> torch.Generator:
        copy = torch.Generator()
        copy.set_state(original.get_state())
        self._copies.append((original, copy))
        return copy

    def drawn_from(
        self, generator: torch.Generator | None, device: torch.device
    ) -> torch.Generator:
        """The copy of a generator, or of the card's own, for a result on that card."""
        if generator is None:
            return self.copy(_C._get_default_generator(_card_of(device)))
        check_generators((generator,), device)
        return self.copy(generator)

    def write_back(self) -> None:
        """The states after what was drawn."""
        for original, copy in self._copies:
            original.set_state(copy.get_state())


@contextlib.contextmanager
def drawn_for(
    device: torch.device | None, op: OpOverload, args: Arguments, kwargs: Keywords
) -> Iterator[Keywords]:
    """Around a call of the CPU's kernel on behalf of a card, if of any: what it draws comes from
    the card's generator, unless the arguments name one. Yields the keywords of the call. An
    operator that takes no generator (`native_dropout`, `rand_like`) draws from the CPU's default
    one, which is set to the state of the card's meanwhile."""
    if device is None or torch.Tag.nondeterministic_seeded not in op.tags:
        yield kwargs
        return
    given = (*args, *kwargs.values())
    if any(isinstance(value, torch.Generator) for value in given):
        yield kwargs
        return
    names = [argument.name for argument in schema_of(op).arguments]
    if "generator" in names[len(args) :]:
        generators = Generators()
        yield {**kwargs, "generator": generators.drawn_from(None, device)}
        generators.write_back()
        return
    of_card = _C._get_default_generator(_card_of(device))
    of_host = torch.default_generator
    state = of_host.get_state()
    of_host.set_state(of_card.get_state())
    try:
        yield kwargs
        of_card.set_state(of_host.get_state())
    finally:
        of_host.set_state(state)
