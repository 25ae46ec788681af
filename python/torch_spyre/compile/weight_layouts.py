# SPDX-License-Identifier: Apache-2.0
"""Layouts of the parameters that a graph multiplies by.

A matmul wants its second operand with the sticks along the columns, and `Linear` multiplies by its
weight transposed: the weight then wants them along its rows. What a graph reads in this way alone
gets that layout before the graph is compiled; otherwise the compiler would see the default one, and
the graph be compiled once more when its weights have moved (`Program.move_inputs`, which serves
all other readers).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import _C
from ..constants import DEVICE_NAME

_aten = torch.ops.aten
_MATMULS = {_aten.mm.default: 1, _aten.addmm.default: 2}  # the place of the second operand


def by_rows(shape: Sequence[int], dtype: torch.dtype) -> _C.SpyreTensorLayout:
    """The layout of a weight [rows, columns] with its sticks along the rows."""
    rows, columns = shape
    return _C.SpyreTensorLayout([rows, columns], [columns, 1], dtype, [1, 0])


def multiplied(gm: torch.fx.GraphModule) -> list[int]:
    """The inputs of an ATen graph that it reads only as the transposed operand of matmuls."""
    inputs = gm.graph.find_nodes(op="placeholder")
    return [index for index, node in enumerate(inputs) if _is_multiplied(node)]


def lay_out(args: Sequence[Any], places: Sequence[int]) -> bool:
    """Gives parameters among the arguments the layout of `multiplied` ones, in which no other
    launch has read them yet and the user gave none. Whether any has moved."""
    moved = False
    for index in places:
        tensor = args[index]
        if isinstance(tensor, torch.nn.Parameter) and tensor.device.type == DEVICE_NAME:
            known = _C.get_device_dtype(tensor.dtype) != _C.DataFormats.INVALID
            plain = tensor.dim() == 2 and tensor.is_contiguous() and tensor.numel() > 0
            if known and plain:
                wanted = by_rows(tensor.shape, tensor.dtype)
                moved = _C.prefer_layout(tensor, wanted) or moved
    return moved


def _is_multiplied(node: torch.fx.Node) -> bool:
    return bool(node.users) and all(
        user.target is _aten.linear.default
        and [i for i, arg in enumerate(user.args) if arg is node] == [1]
        or (_is_transposed(user) and _is_only_operand(user))
        for user in node.users
    )


def _is_transposed(node: torch.fx.Node) -> bool:
    if node.target is _aten.t.default:
        return True
    if node.target is _aten.permute.default:
        return list(node.args[1]) in ([1, 0], [-1, 0], [1, -2], [-1, -2])  # type: ignore[arg-type]
    if node.target is _aten.transpose.int:
        return sorted(dim % 2 for dim in node.args[1:]) == [0, 1]  # type: ignore[operator]
    return False


def _is_only_operand(node: torch.fx.Node) -> bool:
    """Whether matmuls have it as their second operand; it may be a result, too."""
    users = [user for user in node.users if user.op != "output"]
    return bool(users) and all(
        [i for i, arg in enumerate(user.args) if arg is node] == [_MATMULS.get(user.target)]  # type: ignore[call-overload]
        for user in users
    )
