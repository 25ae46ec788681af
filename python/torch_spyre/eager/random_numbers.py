# SPDX-License-Identifier: Apache-2.0
"""Random numbers of operators: dropout's masks, rand, normal_. The card has none. The CPU's kernel
draws them (run_on_cpu.py) from the generator of the card, `torch.spyre.random`, and they are moved
to the card."""

from __future__ import annotations

from collections.abc import Iterable

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
    """The CPU's copies of the generators of one call."""

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

    def default(
        self, op: OpOverload, args: Arguments, kwargs: Keywords, device: torch.device
    ) -> Keywords:
        """The arguments of a random operator that names no generator, with a copy of the card's."""
        names = [argument.name for argument in schema_of(op).arguments]
        if "generator" not in names or kwargs.get("generator") is not None:
            return kwargs
        if names.index("generator") < len(args):
            return kwargs
        return {**kwargs, "generator": self.copy(_C._get_default_generator(_card_of(device)))}

    def write_back(self) -> None:
        """The states after what was drawn."""
        for original, copy in self._copies:
            original.set_state(copy.get_state())
