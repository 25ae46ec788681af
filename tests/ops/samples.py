# SPDX-License-Identifier: Apache-2.0
"""Arguments of operators: some of the database's own samples, and the same several sticks wide.

A wide sample is made of a small one: one size of it (the last dim of its first tensor, else the
first) becomes `odd` (131, no multiple of a stick) or `sticks` (192). At first only last dims
change, then every dim of that size, with sizes in lists; the first form that the CPU accepts is
taken. New values are drawn from the range of the old ones, so that domains (of log, of indices)
hold; sorted tensors stay sorted, permutations stay permutations.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

WIDE = {"odd": 131, "sticks": 192}
MAX_ELEMENTS = 40_000  # of a wide tensor whose dims all grow
SCANNED = 80  # samples of an operator that are looked at
STICK = 64  # 16-bit elements of a stick


class Sample(NamedTuple):
    """The arguments of one call, on the CPU; `take` gives the results that have gradients, `grows`
    tells that the input is broadcast."""

    shapes: str
    input: Any
    args: tuple
    kwargs: dict
    take: Callable
    grows: bool

    def values(self) -> tuple:
        return self.input, self.args, self.kwargs

    def with_values(self, values: tuple) -> Sample:
        return self._replace(input=values[0], args=values[1], kwargs=values[2])

    def tensors(self) -> list[torch.Tensor]:
        return [v for v in pytree.tree_leaves(self.values()) if isinstance(v, torch.Tensor)]

    def describe(self) -> str:
        def one(value):
            if isinstance(value, torch.Tensor):
                sizes = ",".join(map(str, value.shape))
                return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"
            return value

        input, args, kwargs = pytree.tree_map(one, self.values())
        named = [f"{name}={value}" for name, value in kwargs.items()]
        return ", ".join([str(input), *map(str, args), *named]).replace("'", "")[:200]


def shape_class(tensors: list[torch.Tensor]) -> str:
    """The class of a call by the largest of its tensors."""
    sizes = max((tuple(t.shape) for t in tensors), key=lambda s: (_count(s), s), default=())
    if _count(sizes) == 0:
        return "empty"
    if sizes == () or set(sizes) == {1}:
        return "scalar"
    if sizes[-1] <= STICK:
        return "small"
    return "odd" if sizes[-1] % STICK else "sticks"


def _count(sizes) -> int:
    return torch.Size(sizes).numel()


def of_database(op, dtype: torch.dtype, requires_grad: bool) -> list[Sample]:
    """The first samples of the database."""
    torch.default_generator.manual_seed(0)
    random.seed(0)
    made = op.sample_inputs_func(op, "cpu", dtype, requires_grad)
    return [from_database(sample) for sample in itertools.islice(made, SCANNED)]


def spread(found: list[Sample], most: int) -> list[Sample]:
    """At most `most` samples, evenly spread over the list; the first is kept."""
    if len(found) <= most:
        return found
    return [found[index * len(found) // most] for index in range(most)]


def from_database(sample) -> Sample:
    made = Sample("", sample.input, sample.args, sample.kwargs, sample.output_process_fn_grad,
                  sample.broadcasts_input)  # fmt: skip
    return made._replace(shapes=shape_class(made.tensors()))


def widened(sample: Sample, shapes: str, accepts: Callable[[Sample], bool]) -> Sample | None:
    """`sample` with a dim of WIDE[shapes], as far as `accepts` takes one."""
    for size, change_all, change_ints in _attempts(sample):
        wide = _widen(sample, size, WIDE[shapes], change_all, change_ints)
        if wide is not None and accepts(wide):
            return wide._replace(shapes=shapes)
    return None


def _attempts(sample: Sample) -> Iterator[tuple[int, bool, bool]]:
    shaped = [t for t in sample.tensors() if t.dim() > 0 and t.layout == torch.strided]
    if not shaped or shaped[0].numel() == 0:
        return
    sizes = dict.fromkeys((shaped[0].shape[-1], shaped[0].shape[0]))
    for size in (size for size in sizes if 1 < size < STICK):
        yield from ((size, False, False), (size, False, True))
        yield from ((size, True, False), (size, True, True))


def _widen(sample: Sample, old: int, new: int, change_all: bool, change_ints: bool):
    generator = torch.Generator().manual_seed(0)

    def sizes_of(tensor):
        if change_all:
            return [new if size == old else size for size in tensor.shape]
        sizes = list(tensor.shape)
        return [*sizes[:-1], new if sizes[-1] == old else sizes[-1]] if sizes else sizes

    def one(value):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            sizes = sizes_of(value)
            if sizes == list(value.shape):
                return value
            return _drawn(value, sizes, generator).requires_grad_(value.requires_grad)
        if change_ints and type(value) is int and value == old:
            return new
        return value

    planned = [_count(sizes_of(t)) for t in sample.tensors()]
    if not planned or max(planned) > MAX_ELEMENTS:
        return None
    return sample.with_values(pytree.tree_map(one, sample.values()))


def _drawn(like: torch.Tensor, sizes: list[int], generator: torch.Generator) -> torch.Tensor:
    """Values of the range of `like`, with its order if it is sorted or a permutation."""
    old = like.detach()
    if old.dtype == torch.bool:
        return torch.rand(sizes, generator=generator) < 0.5
    if old.is_complex():
        parts = [_drawn(part, sizes, generator) for part in (old.real, old.imag)]
        return torch.complex(*parts)
    if len(sizes) == 1 and not old.is_floating_point() and _is_permutation(old):
        return torch.randperm(sizes[0], generator=generator).to(old.dtype)
    finite = old[old.isfinite()] if old.is_floating_point() else old
    low, high = (float(v) for v in finite.aminmax()) if finite.numel() else (-1.0, 1.0)
    if old.is_floating_point():
        new = torch.rand(sizes, generator=generator, dtype=torch.float64) * (high - low) + low
    else:
        new = torch.randint(int(low), int(high) + 1, sizes, generator=generator)
    ordered = old.shape[-1] > 2 and bool((old[..., 1:] >= old[..., :-1]).all())
    return (new.sort(-1).values if ordered else new).to(old.dtype)


def _is_permutation(tensor: torch.Tensor) -> bool:
    count = tensor.numel()
    return tensor.dim() == 1 and count > 2 and tensor.sort().values.tolist() == [*range(count)]
