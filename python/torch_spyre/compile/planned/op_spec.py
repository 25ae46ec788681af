# SPDX-License-Identifier: Apache-2.0
"""What the front-end decided, op by op: docs/op-spec.md. The C library writes and reads them as
JSON; classes and fields have torch-spyre's names (torch_spyre/_inductor/op_spec.py)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import sympy
import torch

from ... import _C  # noqa: F401  (the enums of formats)
from ..._C import DataFormats
from ...device.streams import Device

__all__ = [
    "IndirectAccess",
    "KernelSpec",
    "LoopSpec",
    "OpSpec",
    "TensorArg",
    "UnimplementedOp",
    "from_json",
    "spyre_constant_tensor",
    "to_json",
]


Json = dict[str, Any]  # of an op, a loop or an operand, as docs/op-spec.md has it


# In a coordinate: the row that an element of the named buffer holds.
IndirectAccess = sympy.Function("IndirectAccess", nargs=1)


@dataclasses.dataclass
class TensorArg:
    """An operand of an op; the last one of an OpSpec is its result."""

    is_input: bool
    arg_index: int  # among the kernel's arguments; -1: it lives in the pool or in LX
    device_dtype: DataFormats
    device_size: list[int]  # device dims, outermost first; the last one is the stick
    device_coordinates: list[sympy.Expr]  # index in each of them, in symbols of the loops
    allocation: dict[str, int]  # {"hbm" | "pool" | "lx": byte}
    stride_map: list[int] | None = None  # host elements of a step in each device dim; -1: none
    per_tile_fixed: bool = False  # every iteration of the loops around has it for itself
    name: str | None = None
    counted_from: Json | None = None  # numbers in the place of its elements (docs/op-spec.md)


@dataclasses.dataclass
class OpSpec:
    """One operation of the card."""

    op: str
    is_reduction: bool
    iteration_space: dict[sympy.Symbol, tuple[sympy.Expr, int]]  # extent, slices over cores
    args: Sequence[TensorArg]
    op_info: dict[str, Any]
    # Or torch-spyre's form, a list a loop around, innermost first.
    tiled_symbols: list[sympy.Symbol | list[sympy.Symbol]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class LoopSpec:
    """A counted loop; i_0, i_1, .. stand for it in the coordinates of its body, outermost first."""

    count: sympy.Expr
    body: list[OpSpec | LoopSpec | UnimplementedOp]
    tiled_symbols: list[sympy.Symbol] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class UnimplementedOp:
    """An operation without a lowering: the kernel compiles and fails when it is run."""

    op: str


KernelSpec = Sequence[OpSpec | LoopSpec | UnimplementedOp]


def spyre_constant_tensor(
    const_val: float, device: Device, dtype: torch.dtype = torch.float16
) -> torch.Tensor:
    """A scalar operand: the card has no immediates."""
    return torch.tensor([const_val], dtype=dtype).to(device)


# ---- JSON


def _to_json(value: Any) -> Any:
    if isinstance(value, (TensorArg, OpSpec, LoopSpec)):
        return {f.name: _to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, DataFormats):
        return value.name
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    if isinstance(value, sympy.Integer):
        return int(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return str(value) if isinstance(value, sympy.Basic) else value


def to_json(specs: KernelSpec) -> list[Json]:
    """As the C library reads them."""
    out: list[Json] = _to_json(list(specs))
    for argument in _arguments(out):
        argument["device_coordinates"] = [str(c) for c in argument["device_coordinates"]]
        if argument["counted_from"] is None:
            del argument["counted_from"]
    return out


def _arguments(specs: Sequence[Json]) -> Iterator[Json]:
    for spec in specs:
        if "body" in spec:
            yield from _arguments(spec["body"])
        else:
            yield from spec["args"]


def expression(text: str) -> sympy.Expr:
    return sympy.sympify(text, locals={"IndirectAccess": IndirectAccess})


def from_json(specs: Sequence[Json]) -> KernelSpec:
    """As the C library writes them."""
    return [_spec(spec) for spec in specs]


def _spec(spec: Json) -> OpSpec | LoopSpec:
    symbols = [sympy.Symbol(name) for name in spec["tiled_symbols"]]
    if "body" in spec:
        return LoopSpec(sympy.Integer(spec["count"]), list(from_json(spec["body"])), symbols)
    space = {
        sympy.Symbol(name): (sympy.Integer(extent), slices)
        for name, (extent, slices) in spec["iteration_space"].items()
    }
    args = [
        TensorArg(
            is_input=arg["is_input"],
            arg_index=arg["arg_index"],
            device_dtype=DataFormats[arg["device_dtype"]],
            device_size=arg["device_size"],
            device_coordinates=[expression(c) for c in arg["device_coordinates"]],
            allocation=arg["allocation"],
            stride_map=arg["stride_map"],
            per_tile_fixed=arg["per_tile_fixed"],
            name=arg["name"],
            counted_from=arg.get("counted_from"),
        )
        for arg in spec["args"]
    ]
    info = dict(spec["op_info"])
    if "constants" in info:
        info["constants"] = {name: float(value) for name, value in info["constants"].items()}
    return OpSpec(spec["op"], spec["is_reduction"], space, args, info, symbols)
