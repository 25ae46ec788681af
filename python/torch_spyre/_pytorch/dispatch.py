# SPDX-License-Identifier: Apache-2.0
"""Of PyTorch's dispatcher: operators, their schemas and kernels."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OperatorBase, OpOverload, OpOverloadPacket
from torch.utils._python_dispatch import TorchDispatchMode as DispatchMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_PLAIN = (torch.Tensor, torch.nn.Parameter)

Arguments = Sequence[Any]  # positional ones of an operator
Keywords = Mapping[str, Any]

__all__ = [
    "Arguments",
    "DispatchMode",
    "HigherOrderOperator",
    "Keywords",
    "LazyNamespace",
    "OpOverload",
    "OpOverloadPacket",
    "OperatorBase",
    "below_autograd",
    "call_composite",
    "call_parts",
    "check_convolution",
    "composed",
    "core_decompositions",
    "definition_of",
    "every_decomposition",
    "has_gaps",
    "has_own_kernel",
    "hint_of",
    "is_composed_of_out",
    "is_decomposed_by_autograd",
    "is_of_devices",
    "is_traced_in_parts",
    "memory_format_of",
    "log_sigmoid_backward",
    "map_parts",
    "native_layer_norm_backward",
    "outside_inference_mode",
    "overload_for",
    "overload_names",
    "parameters_of",
    "register_module",
    "resampled_sizes",
    "schema_of",
    "stream_type",
    "traced_as",
    "version_of",
    "with_transforms",
    "without_autocast",
    "without_modes",
]


def check_convolution(*arguments: Any) -> None:
    """Raises PyTorch's RuntimeError for arguments of a convolution that do not fit together; fake
    tensors of a convolution may lie on several devices."""
    devices = dict.fromkeys(str(t.device) for t in arguments if isinstance(t, torch.Tensor))
    if len(devices) > 1:
        raise RuntimeError(
            "convolution: Expected all tensors to be on the same device, but found at least two "
            f"devices, {' and '.join(devices)}!"
        )
    torch._C._select_conv_backend(*arguments)


def schema_of(op: OpOverload) -> Any:
    """The schema of an overload: its full name, arguments and returns (torch.FunctionSchema)."""
    return op._schema


def definition_of(op: HigherOrderOperator) -> Callable[..., Any]:
    """What PyTorch calls for a higher-order operator on devices without a kernel for it."""
    definition: Callable[..., Any] = op.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd]
    return definition


def overload_names(packet: OpOverloadPacket) -> list[str]:
    """The names of an operator's overloads: "default", "Tensor"."""
    names: Callable[[], list[str]] = packet.overloads
    return names()


def overload_for(
    op: OpOverload | OpOverloadPacket, args: Arguments, kwargs: Keywords
) -> OpOverload:
    """The overload that a call with these arguments is of."""
    if isinstance(op, OpOverload):
        return op
    name = torch._C._jit_resolve_packet(op._qualified_op_name, *args, **kwargs)
    overload: OpOverload = getattr(op, name or "default")
    return overload


def call_composite(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Calls PyTorch's own composition of an operator, whatever the device registered for it."""
    return op._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


def composed(beginning: str) -> Iterator[OpOverload]:
    """ATen's operators whose names begin so, of which PyTorch has a composition and which write
    into none of their arguments."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeExplicitAutograd")
    for full_name in sorted(names):
        if full_name.startswith(f"aten::{beginning}"):
            name, _, overload = full_name.removeprefix("aten::").partition(".")
            op = getattr(getattr(torch.ops.aten, name), overload or "default")
            if not schema_of(op).is_mutable:
                yield op


def call_parts(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Calls the parts of an operator that is_decomposed_by_autograd()."""
    return op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


_OF_OUT = "CompositeExplicitAutogradNonFunctional"


def is_decomposed_by_autograd(full_name: str) -> bool:
    """Whether "aten::linear" is differentiated through its parts; structured operators are not."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel(full_name, "CompositeImplicitAutograd") and not has_kernel(full_name, _OF_OUT)


def operator_named(name: str) -> OpOverload | None:
    """Of "library::operator" the default overload; None while no library has registered it."""
    namespace, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    op: OpOverload | None = getattr(packet, "default", None)
    return op


_OWN_NAMESPACES = {"aten", "prim", "prims", "spyre", "c10d_functional", "_c10d_functional"}


def has_device_kernel(op: OpOverload) -> bool:
    """Whether a library's operator has a kernel of its own for tensors of the device, or one of
    PyTorch's operators that serves all devices."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = ("PrivateUse1", "CompositeExplicitAutograd")
    return op.namespace not in _OWN_NAMESPACES and any(has_kernel(op.name(), key) for key in keys)


def has_own_kernel(op: OpOverload) -> bool:
    """Whether a kernel for tensors of the device is registered."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "PrivateUse1")


def is_composed_of_out(op: OpOverload) -> bool:
    """Whether PyTorch makes the functional operator of an allocation and its out= form, unless a
    device has a kernel for it."""
    if op._schema.is_mutable or torch.Tag.nondeterministic_seeded in op.tags:
        return False
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if has_kernel(op.name(), _OF_OUT):
        return True
    if not has_kernel(op.name(), "CompositeExplicitAutograd"):
        return False
    packet = op.overloadpacket
    forms = [getattr(packet, overload) for overload in packet.overloads()]
    given = [(a.name, str(a.type)) for a in schema_of(op).arguments]
    return any(
        has_kernel(form.name(), "CPU")
        and [(a.name, str(a.type)) for a in schema_of(form).arguments if not a.is_out] == given
        for form in forms
        if schema_of(form).is_mutable
    )


def is_of_devices(op: OpOverload) -> bool:
    """Whether neither the CPU has a kernel for the operator nor PyTorch a composition."""
    keys = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return not any(has_kernel(op.name(), key) for key in keys)


def without_autocast() -> AbstractContextManager[Any]:
    """Inside, operators are called in the dtypes that they are given."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # type: ignore[attr-defined]
    return torch._C._ExcludeDispatchKeyGuard(keys)


def below_autograd() -> AbstractContextManager[Any]:
    """Inside, operators are called as autograd calls them: what they do leaves no graph."""
    return torch._C._AutoDispatchBelowAutograd()


def core_decompositions() -> Mapping[OperatorBase, Callable[..., Any]]:
    """PyTorch's decompositions to core ATen. Without those of composite operators, which the
    dispatcher decomposes itself: torch._decomp.core_aten_decompositions() asks all that are
    registered for theirs, and fails where a library has registered one that it does not define."""
    table: Mapping[OperatorBase, Callable[..., Any]]
    table = torch._decomp._core_aten_decompositions_post_autograd()
    return table


def every_decomposition() -> Mapping[OperatorBase, Callable[..., Any]]:
    """All decompositions that PyTorch has registered, the core's among them."""
    table: Mapping[OperatorBase, Callable[..., Any]] = torch._decomp.decomposition_table
    return table


_TRACED = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)


def is_traced_in_parts(op: OpOverload) -> bool:
    """Whether a trace has parts of an operator in its place, because PyTorch has registered these
    in Python instead of autograd's kernel."""
    return any(key in op.py_kernels for key in _TRACED)


@contextmanager
def traced_as(kernels: Mapping[OpOverload, Callable[..., Any] | None]) -> Iterator[None]:
    """Inside, traces have these operators themselves in the place of their parts, called by
    autograd's kernels, or what a function makes of them."""
    before = {op: dict(op.py_kernels) for op in kernels}
    try:
        for op, function in kernels.items():
            for key in _TRACED:
                op.py_kernels.pop(key, None)
                if function:
                    op.py_kernels[key] = function
            op._dispatch_cache.clear()
        yield
    finally:
        for op, found in before.items():
            op.py_kernels.clear()
            op.py_kernels.update(found)
            op._dispatch_cache.clear()


def resampled_sizes(
    sizes: Sequence[Any], wanted: Sequence[Any] | None, factors: Sequence[float] | None
) -> Sequence[Any]:
    """Of an image [N, C, ..] as interpolate() makes it: `wanted`, or by `factors`."""
    from torch._decomp.decompositions import upsample_compute_output_size

    result: Sequence[Any] = upsample_compute_output_size(sizes, wanted, factors)
    return result


def log_sigmoid_backward(*args: Any) -> Any:
    """PyTorch's decomposition of the operator, which needs no buffer."""
    from torch._decomp.decompositions import log_sigmoid_backward

    return log_sigmoid_backward(*args)


def native_layer_norm_backward(*args: Any) -> Any:
    """PyTorch's decomposition of the operator."""
    from torch._decomp.decompositions import native_layer_norm_backward

    return native_layer_norm_backward(*args)


def has_gaps(tensor: torch.Tensor) -> bool:
    """Whether the tensor is only a part of its storage; sizes may be symbolic."""
    dense = torch._prims_common.is_non_overlapping_and_dense_or_false(tensor)
    return not dense or tensor.storage_offset() != 0


def memory_format_of(tensor: torch.Tensor) -> torch.memory_format:
    """Channels_last, for images or volumes, where the strides are of that order, else contiguous:
    the format that kernels of PyTorch give their results."""
    memory_format: torch.memory_format = torch._prims_common.suggest_memory_format(tensor)
    return memory_format


def hint_of(value: Any) -> Any:
    """The number that a symbolic one is in the call that is traced, 2 where that is not known;
    any other value as it is. Leaves no guard."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value.node.hint if value.node.has_hint() else 2
    return value


def without_modes() -> AbstractContextManager[Any]:
    """Inside, operators compute, although a trace may be under way."""
    if torch._C._len_torch_dispatch_stack() == 0:
        return nullcontext()  # spares the import of what traces
    return torch.utils._python_dispatch._disable_current_modes()


# Keys of functionalize(), which PyTorch excludes while a mode's __torch_dispatch__ runs.
_TRANSFORMS = ("FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode", "Functionalize")


def with_transforms() -> AbstractContextManager[Any]:
    """Inside, torch.func.functionalize() works, although a user's mode may be calling."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for name in _TRANSFORMS:
        excluded = excluded.remove(getattr(torch._C.DispatchKey, name))
    included = torch._C._dispatch_tls_local_include_set()
    return torch._C._ForceDispatchKeyGuard(included, excluded)


def version_of(tensor: torch.Tensor) -> int:
    """Counts the in-place changes that PyTorch saw of a tensor; 0 of one made in inference mode,
    whose changes it does not count."""
    return 0 if tensor.is_inference() else tensor._version


def outside_inference_mode() -> AbstractContextManager[Any]:
    """New tensors count their changes, and want no gradient."""
    if not torch.is_inference_mode_enabled():
        return nullcontext()
    stack = ExitStack()
    stack.enter_context(torch.inference_mode(False))
    stack.enter_context(torch.no_grad())
    return stack


def map_parts(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """change(tensor), or of a subclass that wraps tensors, the same wrapper of changed ones."""
    if type(tensor) in _PLAIN or not is_traceable_wrapper_subclass(tensor):
        return change(tensor)
    names, context = tensor.__tensor_flatten__()
    parts = {name: map_parts(getattr(tensor, name), change) for name in names}
    wrapper: Any = type(tensor)
    changed: torch.Tensor = wrapper.__tensor_unflatten__(
        parts, context, tensor.size(), tensor.stride()
    )
    return changed


def parameters_of(module: torch.nn.Module) -> dict[str, Any]:
    """The parameters (or None) that the module itself owns, by name; the module's own dict."""
    return module._parameters


def register_module(name: str, module: types.ModuleType) -> None:
    """Makes `torch.<name>` the module of the device."""
    torch._register_device_module(name, module)


def stream_type() -> int:
    """The number of this kind of device in torch.Stream's arguments."""
    return int(torch._C._autograd.DeviceType.PrivateUse1.value)


class LazyNamespace(torch._ops._OpNamespace):
    """A namespace of torch.ops whose operators are defined when one is asked for."""

    __module__ = torch._ops.__name__  # operators are named by it in code that Inductor writes

    def __init__(self, name: str, define: Callable[[], None]):
        super().__init__(name)
        self._define = define

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            self._define()
        return super().__getattr__(name)

    @classmethod
    def install(cls, name: str, define: Callable[[], None]) -> None:
        setattr(torch.ops, name, cls(name, define))
