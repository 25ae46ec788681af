# SPDX-License-Identifier: Apache-2.0
"""Layouts and restickifies that the planner chose for a compiled graph, in torch-spyre's classes
(torch_spyre/_inductor/ir.py and insert_restickify.py, torch-spyre/torch-spyre at 0047577).

Views: the front-end that decides is C, and changing them changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypedDict

import torch

from ... import _C
from ..._C import SpyreTensorLayout
from ..._pytorch.inductor.fixed_layout import FixedLayout
from ...constants import DEVICE_NAME
from . import op_spec
from .op_spec import KernelSpec, LoopSpec, OpSpec, TensorArg

__all__ = ["FixedTiledLayout", "PlannedRestickify", "layouts_of", "restickify_plan", "specs_of"]


class FixedTiledLayout(FixedLayout):
    """Inductor's layout of a dense host tensor, with that of the card and where it lies there."""

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        size: Sequence[int],
        stride: Sequence[int],
        device_layout: SpyreTensorLayout,
    ) -> None:
        super().__init__(device, dtype, list(size), list(stride))
        self.device_layout = device_layout
        self.allocation: dict[str, int] = {}  # {"hbm" | "pool" | "lx": byte}
        self.per_tile_fixed = False  # every iteration of the loops around has it for itself

    def __str__(self) -> str:
        return (
            f"FixedTiledLayout('{self.device}', {self.dtype}, size={self.size}, "
            f"stride={self.stride}, device_layout={self.device_layout})"
        )

    __repr__ = __str__


class PlannedRestickify(TypedDict):
    """An operand that an op wants with another stick than it has."""

    arg_name: str  # the buffer as it is
    target_layout: FixedTiledLayout  # of what the op reads


def specs_of(executable: _C.Executable, segment: int = 0) -> list[OpSpec]:
    """The OpSpecs of a card segment in order, each once, however many loops are around it."""
    return list(_flat(op_spec.from_json(_kernel(executable, segment)["specs"])))


def layouts_of(executable: _C.Executable, segment: int = 0) -> dict[str, FixedTiledLayout]:
    """By name of the loop IR: arguments and intermediates of a card segment. Sizes and strides of
    intermediates are those of their dims above 1."""
    kernel = _kernel(executable, segment)
    _ops, buffers = executable.loops(segment)
    found: dict[str, FixedTiledLayout] = {}
    for spec in _flat(op_spec.from_json(kernel["specs"])):
        for arg in spec.args:
            if arg.name is None or arg.name in found:
                continue
            if arg.arg_index >= 0:
                argument = kernel["arguments"][arg.arg_index]
                size, stride = argument.get("size", []), argument.get("stride", [])
                dtype = argument["dtype"]
            else:
                _name, _kind, dtype, _leaves, _in_lx, size, stride, *_rest = buffers[
                    int(arg.name[1:])
                ]
                size, stride = size[::-1], stride[::-1]
            found[arg.name] = _layout(arg, dtype, size, stride)
    return found


def restickify_plan(
    executable: _C.Executable, segment: int = 0
) -> dict[str, list[PlannedRestickify]]:
    """By result of the op that wants it: the operands that are restickified for it. What is
    restickified to be returned has no such op, and is not here."""
    layouts, plan = layouts_of(executable, segment), dict[str, list[PlannedRestickify]]()
    sources: dict[str, str] = {}
    for spec in specs_of(executable, segment):
        *inputs, result = [arg.name or "" for arg in spec.args]
        if spec.op == "ReStickifyOpHBM":
            sources[result] = inputs[0]
            continue
        for name in dict.fromkeys(inputs):
            if name in sources:
                entry = PlannedRestickify(arg_name=sources[name], target_layout=layouts[name])
                plan.setdefault(result, []).append(entry)
    return plan


def _kernel(executable: _C.Executable, segment: int) -> op_spec.Json:
    kernel: op_spec.Json = json.loads(executable.text(segment, "opspec"))
    return kernel


def _flat(specs: KernelSpec) -> Iterator[OpSpec]:
    for spec in specs:
        if isinstance(spec, LoopSpec):
            yield from _flat(spec.body)
        elif isinstance(spec, OpSpec):
            yield spec


def _layout(
    arg: TensorArg, dtype: str, size: Sequence[int], stride: Sequence[int]
) -> FixedTiledLayout:
    assert arg.stride_map is not None
    on_card = SpyreTensorLayout(arg.device_size, arg.stride_map, arg.device_dtype)
    host = torch.device(DEVICE_NAME), getattr(torch, dtype)
    layout = FixedTiledLayout(*host, size, stride, on_card)
    layout.allocation, layout.per_tile_fixed = dict(arg.allocation), arg.per_tile_fixed
    return layout
