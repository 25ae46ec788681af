# SPDX-License-Identifier: Apache-2.0
"""Operators on the CPU: what the card has no program for, with a warning an operator."""

from __future__ import annotations

import os
import sys
import warnings

import torch

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import schema_of
from ..compile import handover
from ..compile.registered import fallback_ops

_aten = torch.ops.aten
_warned: set = set()


class FallbackWarning(UserWarning):
    """An operator ran on the CPU because the card has no program for it."""


def user_level() -> int:
    """The stack level, for warnings.warn(), of the innermost frame outside PyTorch and here."""
    ours = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(torch.__file__))
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        frame, level = frame.f_back, level + 1
    return level


def warn_downcast() -> bool:
    """Warns of int64 values on their way to the card; True when it need not be called again."""
    if not _C.get_downcast_warning():
        return False
    warnings.warn(
        "spyre does not support int64: kept as int32; operators on values outside 32 bits run on "
        "the host",
        UserWarning,
        stacklevel=user_level(),
    )
    return not torch.is_warn_always_enabled()


def warn_fallback(what, message: str) -> None:
    """Warns once for each operator."""
    if what in _warned:
        return
    _warned.add(what)
    text = f"spyre: {what} {message}".splitlines()[0]
    warnings.warn(text, FallbackWarning, stacklevel=user_level())


def run_on_cpu(op, args, kwargs, reason: str | None = None):
    """Runs `op` on CPU copies; results return to the card, mutated arguments are copied back."""
    handover.check_devices(op, args, kwargs)
    if reason is not None:
        warn_fallback(op, f"runs on the CPU: {reason}")
    device: torch.device | None = None
    copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # id of the copy -> original, copy
    generators: list[tuple[torch.Generator, torch.Generator]] = []

    def to_cpu(value):
        nonlocal device
        if isinstance(value, torch.Tensor) and value.device.type == "spyre":
            device = value.device
            copy = value.cpu()
            copies[id(copy)] = (value, copy)
            return copy
        if isinstance(value, torch.device) and value.type == "spyre":
            device = device or value
            return torch.device("cpu")
        if isinstance(value, torch.Generator) and value.device.type == "spyre":
            generators.append((value, torch.Generator()))
            generators[-1][1].set_state(value.get_state())
            return generators[-1][1]
        return value

    cpu_args, cpu_kwargs = pytree.tree_map(to_cpu, (args, kwargs))
    if torch.Tag.nondeterministic_seeded in op.tags:
        cpu_kwargs = _with_generator(op, cpu_args, cpu_kwargs, device, generators)
    function = fallback_ops.get(op)
    if function is None:
        results = call(op, cpu_args, cpu_kwargs)
    else:
        results = function(*_wrapped(op, cpu_args), **cpu_kwargs)
    for original, copy in generators:
        original.set_state(copy.get_state())
    _copy_back(op, cpu_args, cpu_kwargs, copies)

    def to_card(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in copies:
            return copies[id(value)][0]
        if device is None or value.device.type != "cpu":
            return value
        return value.to(device)

    return pytree.tree_map(to_card, results)


def _with_generator(op, args, kwargs, device, generators):
    """Random operators draw from the device's own generator."""
    names = [argument.name for argument in schema_of(op).arguments]
    if "generator" not in names or device is None or kwargs.get("generator") is not None:
        return kwargs
    if names.index("generator") < len(args):
        return kwargs
    default = _C._get_default_generator(device.index if device.index is not None else -1)
    generators.append((default, torch.Generator()))
    generators[-1][1].set_state(default.get_state())
    return {**kwargs, "generator": generators[-1][1]}


def call(op, args, kwargs):
    """Calls PyTorch's own kernel; where the CPU has none for 16 bits, the one for float32.

    PyTorch hands a number to a Python kernel in the place of a tensor without dimensions. Most
    operators take it back, and it leaves the dtype of such a tensor beside it as it is."""
    try:
        return op(*args, **kwargs)
    except NotImplementedError as error:
        if "not implemented for 'Half'" in str(error):
            return _in_float32(op, args, kwargs, torch.float16)
        if "not implemented for 'BFloat16'" in str(error):
            return _in_float32(op, args, kwargs, torch.bfloat16)
        raise
    except RuntimeError as error:
        if op.overloadpacket in _OF_NORMS and "expected scalar type" in str(error):
            return _in_float32(op, args, kwargs, _narrowest(args))
        if "but instead found type" not in str(error):
            raise
    return op(*_wrapped(op, args), **kwargs)


# Backward functions whose 16-bit kernels want statistics in a dtype of their own choice; those of
# the card have that of the input.
_OF_NORMS = {_aten.native_group_norm_backward, _aten.native_batch_norm_backward}


def _narrowest(args) -> torch.dtype:
    dtypes = {leaf.dtype for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)}
    return torch.bfloat16 if torch.bfloat16 in dtypes else torch.float16


def _in_float32(op, args, kwargs, narrow: torch.dtype):
    def cast(given, wanted):
        def one(value):
            return value.to(wanted) if getattr(value, "dtype", None) == given else value

        return one

    if any(a.alias_info is not None and a.alias_info.is_write for a in schema_of(op).arguments):
        raise _C.Unsupported(f"{op} in {narrow}: the CPU has no kernel for it")
    args, kwargs = pytree.tree_map(cast(narrow, torch.float32), (args, kwargs))
    return pytree.tree_map(cast(torch.float32, narrow), op(*args, **kwargs))


def _wrapped(op, values) -> list:
    """The arguments with tensors in the place of numbers, where the operator wants tensors."""
    return [
        torch.tensor(value)
        if isinstance(value, (bool, int, float, complex)) and _is_tensor(argument)
        else value
        for argument, value in zip(schema_of(op).arguments, values, strict=False)
    ]


def _is_tensor(argument) -> bool:
    return str(argument.type) in ("Tensor", "Optional[Tensor]")


# Schemas that do not tell what they write.
_UNDECLARED = {_aten.native_batch_norm.default: ("running_mean", "running_var")}


def _copy_back(op, args, kwargs, copies) -> None:
    undeclared = _UNDECLARED.get(op, ())
    for index, argument in enumerate(schema_of(op).arguments):
        declared = argument.alias_info is not None and argument.alias_info.is_write
        if not declared and argument.name not in undeclared:
            continue
        value = args[index] if index < len(args) else kwargs.get(argument.name)
        for copy in pytree.tree_leaves(value):
            if id(copy) in copies:
                original = copies[id(copy)][0]
                if original.shape != copy.shape:
                    original.resize_(copy.shape)
                original.copy_(copy)
