# SPDX-License-Identifier: Apache-2.0
"""What a user says about the division of work over the cores:

    declare_tensor_dim("M", 64)
    declare_tensor_dim("K", 512)
    name_tensor_dims(x, ["M", "K"])

    def fn(x, y):
        with spyre_hint(work_div={"M": 2, "K": 4}):
            return x @ y

Names spread from named inputs through the compiled function; every kernel of the scope that moves
along a named dim is divided as asked, or the compiler raises torch_spyre.Unsupported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from .. import _C

_sizes: dict[str, int] = {}
_ATTRIBUTE = "_spyre_dims"  # of a tensor: "M,K"
_KEY = "spyre_work_div"  # of an FX node's custom metadata: "M=2,K=4"


def declare_tensor_dim(name: str, size: int) -> None:
    """A name for dims of that size; a name has one size at a time."""
    if not name or set(name) & set(",= "):
        raise ValueError(f"{name!r} is no name of a dim")
    _sizes[name] = int(size)


def name_tensor_dims(tensor: torch.Tensor, names: Sequence[str | None]) -> None:
    """Names the dims of a tensor, outermost first; None for a dim without a name."""
    if len(names) != tensor.dim():
        raise ValueError(f"{len(names)} names for a tensor of {tensor.dim()} dims")
    for name, size in zip(names, tensor.shape, strict=True):
        if name is not None and _sizes.get(name) != size:
            declared = f"declared with size {_sizes[name]}" if name in _sizes else "not declared"
            raise ValueError(f"dim {name} of size {size} is {declared}")
    setattr(tensor, _ATTRIBUTE, ",".join(name or "" for name in names))


def spyre_hint(*, work_div: Mapping[str, int]):
    """A scope of a compiled function whose work is divided into `work_div` slices of named dims."""
    for name, slices in work_div.items():
        if not isinstance(slices, int) or isinstance(slices, bool) or slices < 1:
            raise _C.Unsupported(f"work_div {name}={slices!r}: slices are whole numbers from 1 on")
    text = ",".join(f"{name}={slices}" for name, slices in work_div.items())
    return torch.fx.traceback.annotate({_KEY: text})


def in_use() -> bool:
    return bool(_sizes)


def dims_of(value) -> str:
    """The names of a tensor's dims as the compiler takes them."""
    return getattr(value, _ATTRIBUTE, "") if _sizes else ""


def work_division_of(node: torch.fx.Node) -> str:
    """The hint around a node, as the compiler takes it."""
    return (node.meta.get("custom") or {}).get(_KEY, "")
