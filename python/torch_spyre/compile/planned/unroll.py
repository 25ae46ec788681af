# SPDX-License-Identifier: Apache-2.0
"""OpSpecs without their loops (torch-spyre's torch_spyre/_inductor/codegen/unroll.py,
torch-spyre/torch-spyre at 229aabe). What compiles either list gives the same numbers; the compiler
itself unrolls bundles, in C (docs/tiling.md)."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator

import sympy

from ...constants import BYTES_IN_STICK
from .op_spec import KernelSpec, LoopSpec, OpSpec, TensorArg, UnimplementedOp

__all__ = ["unroll_loop_specs"]


def unroll_loop_specs(specs: KernelSpec) -> list[OpSpec | UnimplementedOp]:
    """The ops in the order of execution; those that are in no loop are the same objects. In loops
    as this compiler writes them, i_0, i_1, .. in coordinates become numbers. In loops as
    torch-spyre writes them, addresses advance by one tile of every tiled symbol, except in operands
    that are `per_tile_fixed`. ValueError for a count that is no number."""
    used = Counter(name for spec in specs for name in _names(spec))
    return [op for spec in specs for op in _unrolled(spec, 0, _has_counters(spec), used)]


def _names(spec: OpSpec | LoopSpec | UnimplementedOp) -> Iterator[str]:
    """The buffers that every iteration has for itself, one for each operand."""
    if isinstance(spec, LoopSpec):
        for inner in spec.body:
            yield from _names(inner)
    elif isinstance(spec, OpSpec):
        yield from (arg.name for arg in spec.args if arg.name and arg.per_tile_fixed)


def _has_counters(spec: OpSpec | LoopSpec | UnimplementedOp) -> bool:
    """Whether a coordinate moves with a loop around it."""
    if isinstance(spec, LoopSpec):
        return any(_has_counters(inner) for inner in spec.body)
    if isinstance(spec, UnimplementedOp):
        return False
    symbols = {s for arg in spec.args for c in arg.device_coordinates for s in c.free_symbols}
    return any(s.name.startswith("i_") for s in symbols - set(spec.iteration_space))


def _unrolled(
    spec: OpSpec | LoopSpec | UnimplementedOp, depth: int, counters: bool, used: Counter[str]
) -> list[OpSpec | UnimplementedOp]:
    if not isinstance(spec, LoopSpec):
        return [spec]
    if not sympy.sympify(spec.count).is_Integer:
        raise ValueError(f"a loop of {spec.count} rounds cannot be unrolled: it is no number")
    own = {name for name, count in Counter(_names(spec)).items() if count == used[name]}
    body = [op for inner in spec.body for op in _unrolled(inner, depth + 1, counters, used)]
    made: list[OpSpec | UnimplementedOp] = []
    for at in range(int(spec.count)):
        for op in map(copy.deepcopy, body):
            if isinstance(op, OpSpec):
                _take_round(op, spec, at, sympy.Symbol(f"i_{depth}") if counters else None)
                for arg in op.args:
                    if at and arg.name and arg.name.partition(".")[0] in own:
                        arg.name = f"{arg.name}.{depth}.{at}"
            made.append(op)
    return made


def _take_round(op: OpSpec, loop: LoopSpec, at: int, counter: sympy.Symbol | None) -> None:
    levels = [level for level in op.tiled_symbols if isinstance(level, list)]
    tiled = levels[0] if levels else loop.tiled_symbols or op.tiled_symbols
    op.tiled_symbols = list(levels[1:])
    for arg in op.args:
        if arg.counted_from is not None:  # the rounds of inner loops are taken already
            *steps, step = arg.counted_from["steps"]
            first = arg.counted_from["first"] + at * step
            arg.counted_from = {**arg.counted_from, "first": first, "steps": steps}
        if counter is not None:
            arg.device_coordinates = [c.subs(counter, at) for c in arg.device_coordinates]
        elif not arg.per_tile_fixed:
            step = sum(
                _byte_stride_for_arg(arg, symbol, int(op.iteration_space[symbol][0]))
                for symbol in tiled
                if symbol in op.iteration_space
            )
            arg.allocation = {where: byte + at * step for where, byte in arg.allocation.items()}


def _byte_stride_for_arg(arg: TensorArg, tiled_sym: sympy.Symbol, tile_range: int) -> int:
    """Bytes between the first element of a tile and that of the next."""

    def element(value: int) -> int:
        total = 0
        for d, coordinate in enumerate(arg.device_coordinates):
            at = dict.fromkeys(coordinate.free_symbols, 0) | {tiled_sym: value}
            total += int(coordinate.subs(at)) * math.prod(arg.device_size[d + 1 :])
        return total

    elements = element(tile_range) - element(0)
    return elements * BYTES_IN_STICK // arg.device_dtype.elems_per_stick()
