# SPDX-License-Identifier: Apache-2.0
"""`torch.empty(.., device_layout=)` and `Tensor.to(.., device_layout=)`, which torch-spyre has.

Both are functions of C that no hook can give an argument, so they are replaced: at the first use of
the device, or when the first SpyreTensorLayout of the process is made
(core/tensor/layout_object.c). Python looks a function up before it computes the arguments, so the
layout in a call must not be the first use of the device. Without the argument they call PyTorch's.
Device contexts, lazy modules, torch.jit.script and pickle, which know PyTorch's functions by
identity or by name, know these, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def install() -> None:
    if getattr(torch.empty, "_without_layout", None) is not None:
        return
    _install_empty()
    _install_to()


def _install_empty() -> None:
    from torch.jit import _builtins
    from torch.utils import _device

    _device._device_constructors()  # the set of PyTorch's functions, made once
    original = torch.empty
    empty = _empty(original)
    _builtins._register_builtin(empty, "aten::empty")
    torch.empty = empty


_OF_EMPTY = {"dtype", "device", "pin_memory", "memory_format"}
_OF_TO = {"dtype", "device", "non_blocking", "copy"}


def _refuse_others(function: str, options: dict[str, Any], known: set[str]) -> None:
    """Arguments that contradict device_layout, or that the function does not have."""
    if others := ", ".join(sorted(set(options) - known)):
        raise TypeError(f"{function}: device_layout does not go with {others}")


def _empty(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def empty(*size: Any, device_layout: Any = None, **options: Any) -> torch.Tensor:
        if device_layout is None:
            return original(*size, **options)
        from ..device import c_names

        size = options.pop("size", size)
        if len(size) == 1 and not isinstance(size[0], int):
            size = tuple(size[0])
        requires_grad = options.pop("requires_grad", False)
        if options.get("layout") in (None, torch.strided):
            options.pop("layout", None)
        _refuse_others("torch.empty", options, _OF_EMPTY)
        result = c_names.empty_with_layout(size, device_layout, **options)
        return result.requires_grad_(requires_grad)

    empty.__doc__ = original.__doc__
    empty.__module__, empty.__qualname__ = "torch", "empty"  # what pickle looks up
    empty._without_layout = original  # type: ignore[attr-defined]
    return empty


def _install_to() -> None:
    # Called as a method under another name: under a TorchFunctionMode Dynamo traces methods only.
    original = torch.Tensor._to_without_layout = torch.Tensor.to  # type: ignore[attr-defined]

    @functools.wraps(original)
    def to(self: Any, *args: Any, device_layout: Any = None, **options: Any) -> torch.Tensor:
        if device_layout is None:
            moved: torch.Tensor = self._to_without_layout(*args, **options)
            return moved
        from ..device import c_names

        if options.get("memory_format") in (torch.preserve_format, torch.contiguous_format):
            del options["memory_format"]
        _refuse_others("Tensor.to", options, _OF_TO)
        home = self.device if self.device.type == "spyre" else "spyre"  # layouts are the card's
        given = [a for a in args if isinstance(a, (str, int, torch.device))]
        target = given[0] if given else options.get("device", home)
        dtype = options.get("dtype", next((a for a in args if isinstance(a, torch.dtype)), None))
        stays = torch.device(target) in (self.device, torch.device("spyre"))
        copies = options.get("copy", False) or any(a is True for a in args)
        stays = stays and self.device.type == "spyre" and dtype in (None, self.dtype)
        if stays and not copies and self.device_tensor_layout() == device_layout:
            return self  # type: ignore[no-any-return]
        result = c_names.empty_with_layout(self.shape, device_layout, dtype or self.dtype, target)
        return result.copy_(self)

    del to.__wrapped__  # what it wraps has no signature to look at
    to.__module__, to.__qualname__ = "torch", "Tensor.to"
    torch.Tensor.to = to  # type: ignore[method-assign]
    # What parameters without sizes (lazy modules) may do.
    lazy: Any = torch.nn.parameter.UninitializedParameter
    lazy._allowed_methods.append(to)
