# SPDX-License-Identifier: Apache-2.0
"""Sizes, strides and dtype of what an operator returns, before it is computed.

PyTorch's kernels for the device `meta` know them for every operator, but many are Python that
imports SymPy and all of Dynamo, which takes longer than anything else in a process that adds two
tensors. The common operators have rules of their own here, for the plain case only: tensors of one
floating dtype, none turned or repeated, and numbers. Whatever else, wrong arguments among it, is
PyTorch's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, OpOverload, memory_format_of, schema_of
from .run_on_cpu import call

_aten = torch.ops.aten
EMPTY = -1  # stands for a result of size [0] and the dtype of the first one, which no program makes
NONE = -2  # to core/eager: for a result that is not wanted
_FLOATS = {torch.float16, torch.bfloat16, torch.float32}


class _NotPlain(Exception):
    """No rule holds for these arguments."""


def results_of(op: OpOverload, values: Arguments) -> Any:
    """What op(*values) would return, as tensors of the device `meta`; `values` are in the order of
    the schema. Raises Unsupported where PyTorch does not know it, or takes the arguments for wrong:
    its CPU kernel then says so in PyTorch's class."""
    rule = _RULES.get(op) or _ORDERS.get(op)
    if rule is not None:
        try:
            return rule(*values)
        except _NotPlain:
            pass
    return _by_pytorch(op, values)


def _by_pytorch(op: OpOverload, values: Arguments) -> Any:
    def to_meta(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device="meta"
            )
        if isinstance(value, torch.device):
            return torch.device("meta")
        return value

    arguments = schema_of(op).arguments
    values = pytree.mapped(to_meta, values)
    named = {a.name: v for a, v in zip(arguments, values, strict=True) if a.kwarg_only}
    try:
        return call(op, values[: len(values) - len(named)], named)
    except _C.InternalError:
        raise
    except Exception as refused:  # the kernels for meta are Python, and raise anything
        first = (str(refused).splitlines() or [type(refused).__name__])[0]
        raise _C.Unsupported(f"PyTorch does not tell what it returns: {first}") from refused


def _demand(condition: bool) -> None:
    if not condition:
        raise _NotPlain


def _is_in_rows(tensor: torch.Tensor) -> bool:
    """No dim is turned before another nor repeats elements, so that results are contiguous."""
    if tensor.is_contiguous():
        return True
    steps = [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
    return steps[-1] > 0 and steps == sorted(steps, reverse=True)


def _keeps_rows(tensor: torch.Tensor) -> bool:
    """PyTorch sorts the dims of element-wise results by all strides, those that do not matter among
    them, and of equal ones has the smaller dim inside."""
    dims = list(zip(tensor.stride(), tensor.shape, strict=True))
    return all(outer >= inner and inner[0] > 0 for outer, inner in itertools.pairwise(dims))


def _result(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _dtype_of(*values: object) -> torch.dtype:
    """The one dtype of the tensors among `values`, which are plain."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    _demand(all(map(_is_in_rows, tensors)))
    dtypes = {tensor.dtype for tensor in tensors}
    _demand(len(dtypes) == 1 and dtypes <= _FLOATS)
    return dtypes.pop()


def _broadcast(*values: object) -> Sequence[int]:
    """The sizes that the tensors among `values` have together; the rest are numbers or options."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    shapes = [tensor.shape for tensor in tensors]
    others = (value for value in values if not isinstance(value, torch.Tensor))
    _demand(all(value is None or type(value) in (int, float, str) for value in others))
    if len(set(shapes)) == 1 and all(tensor.is_contiguous() for tensor in tensors):
        return shapes[0]
    _demand(all(map(_keeps_rows, tensors)))
    try:
        shape: Sequence[int] = torch.broadcast_shapes(*shapes)
    except RuntimeError as error:
        raise _NotPlain from error
    return shape


def _element_wise(*values: object) -> Tensor:
    dtype = _dtype_of(*values)
    return _result(_broadcast(*values), dtype)


def _with_other(x: Tensor, other: object, *more: object) -> Tensor:
    """A number is a tensor of other sizes to PyTorch."""
    _demand(isinstance(other, torch.Tensor) or _keeps_rows(x))
    return _element_wise(x, other, *more)


def _clamp(x: Tensor, least: object, most: object) -> Tensor:
    _demand(least is not None or most is not None)
    return _element_wise(x, least, most)


def _comparison(*values: object) -> Tensor:
    _dtype_of(*values)
    return _result(_broadcast(*values), torch.bool)


def _where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    _demand(condition.dtype == torch.bool and _is_in_rows(condition))
    return _result(_broadcast(condition, x, y), _dtype_of(x, y))


def _product(x: Tensor, y: Tensor) -> Tensor:
    """mm and bmm: [.., M, K] by [.., K, N]."""
    dtype = _dtype_of(x, y)
    _demand(x.shape[:-2] == y.shape[:-2] and x.shape[-1] == y.shape[-2])
    return _result((*x.shape[:-1], y.shape[-1]), dtype)


def _mm(x: Tensor, y: Tensor) -> Tensor:
    _demand(x.dim() == 2 and y.dim() == 2)
    return _product(x, y)


def _bmm(x: Tensor, y: Tensor) -> Tensor:
    _demand(x.dim() == 3 and y.dim() == 3)
    return _product(x, y)


def _addmm(bias: Tensor, x: Tensor, y: Tensor, beta: object, alpha: object) -> Tensor:
    result = _mm(x, y)
    _demand(_dtype_of(bias, x) == result.dtype and _broadcast(bias, result) == result.shape)
    _demand(type(beta) in (int, float) and type(alpha) in (int, float))
    return result


def _scaled_mm(
    x: Tensor,
    y: Tensor,
    _scale_x: Tensor,
    _scale_y: Tensor,
    _bias: Tensor | None,
    _scale: Tensor | None,
    dtype: torch.dtype | None,
    _fast: bool,
) -> Tensor:
    """Batches, which PyTorch's own rule refuses and the card takes: 3D by 2D and 3D by 3D."""
    _demand(x.dim() == 3 and y.dim() in (2, 3) and {x.dtype, y.dtype} == {torch.float8_e4m3fn})
    _demand(x.shape[-1] == y.shape[-2] and (y.dim() == 2 or x.shape[0] == y.shape[0]))
    if dtype is None or dtype not in _FLOATS:
        raise _NotPlain
    return _result((*x.shape[:-1], y.shape[-1]), dtype)


def _grouped_mm(
    x: Tensor, y: Tensor, offs: Tensor | None, bias: object, dtype: torch.dtype | None
) -> Tensor:
    """In every dtype that has products; PyTorch's own rule is of bfloat16 alone."""
    _demand(offs is None or isinstance(offs, Tensor))
    in_groups = x.dim() == 2 and offs is not None and offs.shape == y.shape[:1]
    _demand(y.dim() == 3 and (in_groups or (x.dim() == 3 and offs is None)))
    _demand(in_groups or x.shape[0] == y.shape[0])
    _demand(x.dtype == y.dtype and dtype in (None, x.dtype) and bias is None)
    _demand(x.dtype in _FLOATS and x.shape[-1] == y.shape[-2])
    return _result((*x.shape[:-1], y.shape[-1]), x.dtype)


def _softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    _demand(not half_to_float and -x.dim() <= dim < x.dim())
    return _result(x.shape, _dtype_of(x))


def _attention(*values: object) -> Tensor:
    """Heads lie within rows, as on other devices: models view the result as [.., heads * width]."""
    result = _by_pytorch(_aten.scaled_dot_product_attention.default, values)
    _demand(result.dim() == 4)
    batch, heads, rows, width = result.shape
    return _result((batch, rows, heads, width), result.dtype).transpose(1, 2)


def _layer_norm(
    x: Tensor, sizes: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = _dtype_of(x, weight, bias)
    kept = x.dim() - len(sizes)
    _demand(0 <= kept < x.dim() and list(x.shape[kept:]) == list(sizes))
    _demand(all(w is None or list(w.shape) == list(sizes) for w in (weight, bias)))
    moments = (*x.shape[:kept], *(1 for _ in sizes))
    return (
        _result(x.shape, dtype),
        _result(moments, torch.float32),
        _result(moments, torch.float32),
    )


def _layer_norm_alone(
    x: Tensor,
    sizes: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *_cudnn: bool,
) -> Tensor:
    return _layer_norm(x, sizes, weight, bias, eps)[0]


def _reduction(
    x: Tensor, dims: Sequence[int] | None, keep: bool, dtype: torch.dtype | None = None
) -> Tensor:
    _demand(dtype is None and all(-x.dim() <= dim < x.dim() for dim in dims or ()))
    reduced = {dim % x.dim() for dim in dims} if dims else set(range(x.dim()))
    _demand(not dims or len(reduced) == len(dims))
    sizes = [1 if d in reduced else n for d, n in enumerate(x.shape) if keep or d not in reduced]
    return _result(sizes, _dtype_of(x))


def _whole_reduction(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    return _reduction(x, None, False, dtype)


def _attention_backward(
    _grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    wanted: Sequence[bool],
    *_rest: object,
) -> tuple[Tensor | None, ...]:
    """PyTorch has no rule of it."""
    pairs = zip((query, key, value, bias), wanted, strict=True)
    return tuple(_result(x.shape, x.dtype) if x is not None and is_wanted else None
                 for x, is_wanted in pairs)  # fmt: skip


def _convolution(x: Tensor, weight: Tensor, *how: Any) -> Tensor:
    """In channels_last where an operand is, as on the CPU; that of the device `meta` is not."""
    result: Tensor = _by_pytorch(_aten.convolution.default, [x, weight, *how])
    last = any(
        y.is_contiguous(memory_format=torch.channels_last) and not y.is_contiguous()
        for y in (x, weight)
    )
    return result.contiguous(memory_format=torch.channels_last) if last else result


def _in_format_of(op: OpOverload, place: int) -> Callable[..., Any]:
    """In channels_last where that argument is, else contiguous, as on the CPU."""

    def rule(*values: Any) -> Any:
        x, results = values[place], _by_pytorch(op, values)
        memory_format = memory_format_of(x)
        return pytree.tree_map_only(
            Tensor,
            lambda y: y.contiguous(
                memory_format=memory_format if y.dim() == x.dim() else torch.contiguous_format
            ),
            results,
        )

    return rule


def _in_order_of_sum(op: OpOverload) -> Callable[..., Any]:
    """Element-wise with two tensors; in the strides of their sum, as on the CPU."""

    def rule(*values: Any) -> Tensor:
        result: Tensor = _by_pytorch(op, values)
        operands = [x for x in values if isinstance(x, Tensor)]
        if len(operands) < 2:
            return result
        like: Tensor = _by_pytorch(_aten.add.Tensor, [*operands, 1])
        return torch.empty_strided(result.shape, like.stride(), dtype=result.dtype, device="meta")

    return rule


def _in_rows(op: OpOverload) -> Callable[..., Any]:
    """Contiguous, as on the CPU."""
    return lambda *values: pytree.tree_map_only(
        Tensor, lambda result: result.contiguous(), _by_pytorch(op, values)
    )


def _lstm_cell(
    gates: Tensor, _hidden_gates: Tensor, cell: Tensor, *_biases: Tensor | None
) -> tuple[Tensor, ...]:
    """PyTorch's fails without biases."""
    return tuple(_result(x.shape, x.dtype) for x in (cell, cell, gates))


def _gru_cell(
    _input_gates: Tensor, _hidden_gates: Tensor, hidden: Tensor, *_biases: Tensor | None
) -> tuple[Tensor, ...]:
    """PyTorch has no rule of it."""
    return _result(hidden.shape, hidden.dtype), _result(hidden.shape, hidden.dtype)


def _embedding_bag(
    table: Tensor, indices: Tensor, offsets: Tensor, *more: Any
) -> tuple[Tensor, ...]:
    """The CPU's kernel leaves out what only its own backward function needs."""
    _by_frequency, mode, _sparse, _factors, has_end, _padding = more
    _demand(indices.dim() == 1 and offsets.dim() == 1 and table.dim() == 2)
    bags = offsets.shape[0] - has_end
    whole = [bags, table.shape[1]]
    sizes = indices.shape, [bags], whole if mode == 2 else [bags]
    return (_result(whole, table.dtype), *(_result(size, indices.dtype) for size in sizes))


def _like_second(grad: Tensor, x: Tensor, *more: Any) -> Tensor:
    return _result(x.shape, x.dtype)


def _weight_norm(v: Tensor, g: Tensor, *more: Any) -> tuple[Tensor, ...]:
    """PyTorch's has one norm for all elements of a vector, which its CPU kernel has not."""
    kept = torch.float32 if g.dtype is torch.bfloat16 else g.dtype
    return _result(v.shape, v.dtype), _result(g.shape, kept)


def _weight_norm_backward(_grad: Tensor, v: Tensor, g: Tensor, *more: Any) -> tuple[Tensor, ...]:
    """PyTorch has no rule of it."""
    return _result(v.shape, v.dtype), _result(g.shape, g.dtype)


def _multilabel_margin(x: Tensor, _target: Tensor, reduction: int) -> tuple[Tensor, ...]:
    """PyTorch's has a dim of 1 for the loss of a single row, which its CPU kernel has not."""
    return _result(() if reduction else x.shape[:-1], x.dtype), _result(x.shape, x.dtype)


def _rules() -> dict[OpOverload, Callable[..., Any]]:
    unary = [_aten.abs, _aten.ceil, _aten.cos, _aten.exp, _aten.floor, _aten.gelu, _aten.log,
             _aten.neg, _aten.reciprocal, _aten.relu, _aten.rsqrt, _aten.sigmoid, _aten.silu,
             _aten.sin, _aten.sqrt, _aten.square, _aten.tanh]  # fmt: skip
    same = [op.default for op in (*unary, _aten.maximum, _aten.minimum)]
    arithmetic = (_aten.add, _aten.sub, _aten.mul, _aten.div, _aten.rsub)
    same += [_aten.pow.Tensor_Scalar, _aten.fill.Scalar]
    comparisons = (_aten.eq, _aten.ne, _aten.lt, _aten.le, _aten.gt, _aten.ge)
    return {
        **dict.fromkeys(same, _element_wise),
        **{overload: _with_other for op in arithmetic for overload in (op.Tensor, op.Scalar)},
        **{overload: _comparison for op in comparisons for overload in (op.Tensor, op.Scalar)},
        _aten.clamp.default: _clamp,
        _aten.where.self: _where,
        _aten.mm.default: _mm,
        _aten.bmm.default: _bmm,
        _aten.addmm.default: _addmm,
        _aten._scaled_mm.default: _scaled_mm,
        _aten._grouped_mm.default: _grouped_mm,
        _aten._scaled_dot_product_fused_attention_overrideable_backward.default:
            _attention_backward,
        _aten.convolution.default: _convolution,
        _aten.multi_margin_loss_backward.default: _like_second,
        _aten.multilabel_margin_loss_backward.default: _like_second,
        _aten.multilabel_margin_loss_forward.default: _multilabel_margin,
        _aten._weight_norm_interface.default: _weight_norm,
        _aten._weight_norm_interface_backward.default: _weight_norm_backward,
        _aten._embedding_bag.default: _embedding_bag,
        _aten._embedding_bag_forward_only.default: _embedding_bag,
        _aten._thnn_fused_lstm_cell.default: _lstm_cell,
        _aten._thnn_fused_gru_cell.default: _gru_cell,
        _aten.scaled_dot_product_attention.default: _attention,
        _aten._softmax.default: _softmax,
        _aten._log_softmax.default: _softmax,
        _aten.layer_norm.default: _layer_norm_alone,
        _aten.native_layer_norm.default: _layer_norm,
        _aten.sum.dim_IntList: _reduction,
        _aten.mean.dim: _reduction,
        _aten.amax.default: _reduction,
        _aten.amin.default: _reduction,
        _aten.sum.default: _whole_reduction,
        _aten.mean.default: _whole_reduction,
    }  # fmt: skip


def _orders() -> dict[OpOverload, Callable[..., Any]]:
    """Of operators whose strides PyTorch predicts otherwise than its CPU kernels give them."""
    formatted = {_aten.batch_norm_backward.default: 1}  # which argument has the format
    for pad in ("reflection_pad2d", "reflection_pad3d", "replication_pad2d", "replication_pad3d"):
        formatted[getattr(_aten, pad).default] = 0
        formatted[getattr(_aten, f"{pad}_backward").default] = 1
    formatted |= dict.fromkeys(
        (_aten.native_batch_norm.default, _aten._native_batch_norm_legit.no_stats,
         _aten._native_batch_norm_legit_functional.default,
         _aten._native_batch_norm_legit_no_training.default,
         _aten._batch_norm_with_update_functional.default,
         _aten.max_unpool2d.default, _aten.pixel_shuffle.default), 0,
    )  # fmt: skip
    in_rows = (_aten._log_softmax_backward_data.default, _aten.native_layer_norm_backward.default,
               _aten.log_sigmoid_forward.default)  # fmt: skip
    of_sum = (_aten.elu_backward.default, _aten.hardsigmoid_backward.default,
              _aten.logit_backward.default, _aten.softplus_backward.default,
              _aten.xlogy.Tensor)  # fmt: skip
    return {
        **{op: _in_format_of(op, place) for op, place in formatted.items()},
        **{op: _in_order_of_sum(op) for op in of_sum},
        **{op: _in_rows(op) for op in in_rows},
    }


_RULES, _ORDERS = _rules(), _orders()
