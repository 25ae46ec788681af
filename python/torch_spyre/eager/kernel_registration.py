# SPDX-License-Identifier: Apache-2.0
"""What PyTorch calls for tensors of the card: the compiler's operators one by one, copies and
allocations, and eager.dispatch() for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch import Tensor

from .. import _C
from .._pytorch.dispatch import (
    OpOverload,
    call_composite,
    has_own_kernel,
    is_composed_of_out,
    is_decomposed_by_autograd,
    log_sigmoid_backward,
    native_layer_norm_backward,
    schema_of,
)
from .._pytorch.dynamo import untraced
from ..compile import decomposition_table
from ..compile.decompositions.lines import FLOATS, HALVES, computed
from ..compile.registered import composed
from . import made_on_host
from .dispatch import dispatch
from .operator_program import operator_of
from .run_on_cpu import overlaps, run_on_cpu

_aten = torch.ops.aten

Kernel = Callable[..., Any]

# Copies and allocations, which are the binding's own business, and constants.
_NOT_DIRECT = {
    "_to_copy", "clone", "copy", "copy_", "empty", "empty_like", "fill", "full", "full_like",
    "lift_fresh_copy", "new_empty", "new_full", "new_ones", "new_zeros", "ones", "ones_like",
    "scalar_tensor", "zeros", "zeros_like", "arange", "_unsafe_view", "new_empty_strided",
    "as_strided_scatter",  # by places in memory, of which a kernel keeps those of elements alone
}  # fmt: skip


# What PyTorch composes of several kernels, and the compiler makes one program of.
_SEVERAL_KERNELS = {_aten.binary_cross_entropy_with_logits.default, _aten.logsumexp.default}


def direct_operators() -> Iterator[tuple[str, OpOverload]]:
    """Operators that are registered one by one: those of the compiler, and those that it takes
    apart. PyTorch would compose many of them of an allocation and the out= form; asked directly,
    the compiler chooses the layout of a result. Views and what PyTorch differentiates through its
    parts stay PyTorch's."""
    for name in _C.op_names():
        if "overrideable" in name:  # attention.py
            continue
        if not name.startswith("aten."):
            continue
        packet, overload = name.removeprefix("aten.").split(".")
        op = getattr(getattr(_aten, packet), overload)
        if _is_direct(op):
            yield _name_of(op), op
    rows = frozenset(_C.op_names())
    for op in decomposition_table.table():
        if isinstance(op, OpOverload) and str(op) not in rows and _is_taken_apart(op):
            yield _name_of(op), op


def _name_of(op: OpOverload) -> str:
    """As torch.library takes it: "add.Tensor", "relu"."""
    name: str = op.name()
    return name.removeprefix("aten::")


def _is_direct(op: OpOverload) -> bool:
    schema = schema_of(op)
    return (
        op.overloadpacket.__name__ not in _NOT_DIRECT
        and not is_decomposed_by_autograd(op.name())
        and not any(argument.alias_info is not None for argument in schema.arguments)
    )


def _is_taken_apart(op: OpOverload) -> bool:
    """Copies of views are PyTorch's: it makes the view and copies that."""
    is_left = op.namespace != "aten" or op.overloadpacket.__name__.endswith("_copy")
    is_composed = is_composed_of_out(op) or op in _SEVERAL_KERNELS
    return not is_left and is_composed and _is_direct(op)


def _kernel(op: OpOverload) -> Kernel:
    return lambda *args, **kwargs: dispatch(op, *args, **kwargs)


def _local_scalar_dense(tensor: Tensor) -> Any:
    return _aten._local_scalar_dense.default(tensor.cpu())


# Dtypes that the card's identity and casts take.
_CARD_COPIES = {
    torch.float16, torch.bfloat16, torch.bool, torch.float32, torch.int32, torch.int64,
    torch.float8_e4m3fn,
}  # fmt: skip


def _to_copy(
    tensor: Tensor,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    memory_format: torch.memory_format | None = None,
    **options: Any,
) -> Any:
    """Casts on the card; copies between cards are PyTorch's composition of empty and copy."""
    op = _aten._to_copy.default
    here = device is None or torch.device(device) in (tensor.device, torch.device("spyre"))
    if here and dtype is not None and {dtype, tensor.dtype} <= _CARD_COPIES:
        return operator_of(op).kernel((tensor,), {"dtype": dtype, "memory_format": memory_format})
    return call_composite(
        op,
        tensor,
        dtype=dtype,
        device=device,
        memory_format=memory_format,
        **options,
    )


def _clone(tensor: Tensor, *, memory_format: torch.memory_format | None = None) -> Any:
    op = _aten.clone.default
    plain = tensor.dtype in _CARD_COPIES and not tensor.is_neg()
    if plain and tensor.numel() > 0 and tensor.dim() <= _C.MAX_RANK:
        return operator_of(op).kernel((tensor,), {"memory_format": memory_format})
    return call_composite(op, tensor, memory_format=memory_format)


def _zero_(tensor: Tensor) -> Tensor:
    return tensor if _C._fill_zero(tensor) else tensor.fill_(0)


def _refuse_quantized(*_args: Any, **_options: Any) -> NoReturn:
    raise RuntimeError(
        "quantized tensors cannot lie on the spyre device: dequantize() them, or keep their "
        "int_repr() there"
    )


def _convolution(*args: Any) -> Any:
    return operator_of(_aten.convolution.default)(args, {})


def _convolution_backward(grad: Tensor, x: Tensor, weight: Tensor, *how: Any) -> Any:
    """`how` is what the forward pass has behind the bias, then which gradients are wanted."""
    _stride, _padding, _dilation, transposed, _output_padding, groups, wanted = how
    features = weight.shape[1] * groups if transposed else weight.shape[0]
    sizes = [features] if wanted[2] else None
    return operator_of(_aten.convolution_backward.default)((grad, x, weight, sizes, *how), {})


def _layer_norm(
    x: Tensor,
    sizes: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    _cudnn: bool = True,
) -> Any:
    dtypes = {value.dtype for value in (x, weight, bias) if value is not None}
    rows = len(sizes) == 1 and sizes[0] > 1 and x.numel() > 0
    if rows and len(dtypes) == 1 and x.dtype in FLOATS:
        return dispatch(_aten.layer_norm.default, x, sizes, weight, bias, eps)
    return _aten.native_layer_norm.default(x, sizes, weight, bias, eps)[0]


def _rms_norm(
    x: Tensor, sizes: list[int], weight: Tensor | None = None, eps: float | None = None
) -> Any:
    op = _aten.rms_norm.default
    plain = x.dtype in HALVES and (weight is None or weight.dtype == x.dtype)
    if plain and 0 < len(sizes) <= x.dim() and x.numel() > 0:
        return dispatch(op, x, sizes, weight, eps)
    return call_composite(op, x, sizes, weight, eps)


def _equal(x: Tensor, y: Tensor) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype or x.device != y.device:
        return bool(run_on_cpu(_aten.equal.default, (x, y), {}))
    return x.numel() == 0 or bool((x == y).all().item())


def _narrow_copy(x: Tensor, dim: int, start: int, length: int) -> Any:
    try:
        return x.narrow(dim, start, length).clone()
    except IndexError:  # the CPU's kernel has a class of its own for this
        return run_on_cpu(_aten.narrow_copy.default, (x, dim, start, length), {})


_SUM_APART = "the sum has another shape or dtype than self, or they share memory"


def _addr_(x: Tensor, vec1: Tensor, vec2: Tensor, **factors: Any) -> Tensor:
    """On the card where the sum is of the shape and dtype of `x`; the rest is the CPU's to refuse
    or to cast."""
    vectors = vec1.dim() == vec2.dim() == 1 and x.shape == (vec1.numel(), vec2.numel())
    alike = {x.dtype} == {vec1.dtype, vec2.dtype} and x.device == vec1.device == vec2.device
    if vectors and alike and not overlaps(x):
        storages = {t.untyped_storage().data_ptr() for t in (x, vec1, vec2)}
        result = torch.addr(x, vec1, vec2, **factors) if len(storages) == 3 else None
        if result is not None and result.dtype == x.dtype:
            return x.copy_(result)
    written: Tensor = run_on_cpu(_aten.addr_.default, (x, vec1, vec2), factors, _SUM_APART)
    return written


def _grouped_mm(a: Tensor, b: Tensor, offs: Tensor | None = None, *more: Any) -> Any:
    """Groups of rows and batches on the card; groups of columns, or of what is summed, product by
    product."""
    op = _aten._grouped_mm.default
    if a.dtype in computed() and b.dim() == 3 and (a.dim() == 2 or offs is None):
        return operator_of(op)((a, b, offs, *more), {})
    return call_composite(op, a, b, offs, *more)


def _nested_fits(_x: Tensor, _mask: Tensor) -> bool:
    """TransformerEncoder asks this before it makes a nested tensor, which the card has not; with
    False it masks instead."""
    return False


def register() -> list[torch.library.Library]:
    """Registers the device's operators; the registrations live as long as what is returned."""
    from ..compile.decompositions import recurrent
    from ..compile.layers import attention, batched_attention
    from . import optimizers, resize, sparse

    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(untraced(dispatch), "PrivateUse2")
    _C.register_operator("")
    aten = torch.library.Library("aten", "IMPL", "PrivateUse1")
    kernels = torch.library.Library("aten", "IMPL", "PrivateUse2")

    def register_kernel(name: str, kernel: Kernel) -> None:
        kernels.impl(name, untraced(kernel))
        _C.register_operator(name)

    for name, op in direct_operators():
        if not has_own_kernel(op):  # of a user's decomposition
            register_kernel(name, _kernel(op))
    attention.register(aten, register_kernel)
    batched = torch.library.Library("aten", "IMPL")
    batched_attention.register(batched)
    optimizers.register(aten, untraced)
    aten.impl("_local_scalar_dense", untraced(_local_scalar_dense))
    register_kernel("_to_copy", _to_copy)
    register_kernel("clone", _clone)
    register_kernel("copy_", _kernel(_aten.copy_.default))
    aten.impl("zero_", untraced(_zero_))
    aten.impl("convolution_overrideable", untraced(_convolution))
    aten.impl("convolution_backward_overrideable", untraced(_convolution_backward))
    register_kernel("convolution_backward", _kernel(_aten.convolution_backward.default))
    aten.impl("equal", untraced(_equal))
    aten.impl("narrow_copy", untraced(_narrow_copy))
    # The CPU's kernels want statistics in another dtype than devices give, or a buffer that devices
    # do not keep.
    operator_of(_aten.native_layer_norm_backward.default).composition = native_layer_norm_backward
    operator_of(_aten.log_sigmoid_backward.default).composition = log_sigmoid_backward
    register_kernel("layer_norm", _layer_norm)  # without gradients (core/eager/dispatch.cpp)
    register_kernel("rms_norm", _rms_norm)
    register_kernel("max_pool2d", _kernel(_aten.max_pool2d.default))
    # PyTorch's compositions for devices: one resizes its first argument, one refuses devices, four
    # take any dtype, one asks for a kernel that there is for the CPU.
    aten.impl("addr_", untraced(_addr_))
    register_kernel("mode.values", _kernel(_aten.mode.values))
    for suffix in ("", ".periodic", ".beta"):
        op = getattr(_aten.kaiser_window, suffix[1:] or "default")
        register_kernel(f"kaiser_window{suffix}", _kernel(op))
    register_kernel("ldexp.Tensor", _kernel(_aten.ldexp.Tensor))
    register_kernel("ldexp.out", _kernel(_aten.ldexp.out))
    register_kernel("all.dims_out", _kernel(_aten.all.dims_out))
    register_kernel("any.dims_out", _kernel(_aten.any.dims_out))
    for op, make in made_on_host.makers():
        aten.impl(_name_of(op), untraced(make))
    operator_of(_aten.native_dropout.default).composition = made_on_host.dropout
    aten.impl("_grouped_mm", untraced(_grouped_mm))
    composed.add(_aten._grouped_mm.default)
    aten.impl("_nested_tensor_from_mask_left_aligned", untraced(_nested_fits))
    quantized = torch.library.Library("aten", "IMPL", "QuantizedPrivateUse1")
    for name in ("empty_quantized", "_empty_affine_quantized",
                 "_empty_per_channel_affine_quantized"):  # fmt: skip
        quantized.impl(name, _refuse_quantized)
    lazy = []
    # Copies look at these bits themselves (core/tensor/copy.c).
    for key in ("Conjugate", "Negative"):
        lazy.append(torch.library.Library("aten", "IMPL", key))
        lazy[-1].impl("_copy_from", torch.library.fallthrough_kernel)
    more = [resize.register(), recurrent.register(), *sparse.register()]
    return [fallback, aten, kernels, batched, quantized, *more, *lazy]
