# SPDX-License-Identifier: Apache-2.0
"""What the device adds to PyTorch's own functions and classes.

* `Module.to` gives weights of `Linear` the layout that they are used in: model_utils.
* `torch.compile(f)` hands graphs that touch the device to our compiler, all others to Inductor.
* `torch.empty(..., device_layout=)`, `Tensor.to(..., device_layout=)` and
  `Tensor.device_tensor_layout()` give and show the layout of a tensor on the card.
"""

from __future__ import annotations

import functools
import os

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .. import _C, model_utils
from ..device import bindings


def device_tensor_layout(tensor: torch.Tensor):
    """The SpyreTensorLayout of a tensor's storage; None when it is not on the card."""
    if tensor.device.type != "spyre" or isinstance(tensor, FakeTensor):
        return None
    return _C.get_spyre_tensor_layout(tensor)


def _patch_empty(original):
    @functools.wraps(original)
    def empty(*size, device_layout=None, **options):
        if device_layout is None:
            return original(*size, **options)
        if len(size) == 1 and not isinstance(size[0], int):
            size = tuple(size[0])
        return bindings.empty_with_layout(
            size, device_layout, options.get("dtype"), options.get("device")
        )

    del empty.__wrapped__
    return empty


def _patch_to() -> None:
    # Called as a method under another name: under a TorchFunctionMode Dynamo traces methods only.
    original = torch.Tensor._to_without_layout = torch.Tensor.to  # type: ignore[attr-defined]

    @functools.wraps(original)
    def to(self, *args, device_layout=None, **options):
        if device_layout is None:
            return self._to_without_layout(*args, **options)
        home = self.device if self.device.type == "spyre" else "spyre"  # layouts are the card's
        given = [a for a in args if isinstance(a, (str, int, torch.device))]
        target = given[0] if given else options.get("device", home)
        dtype = options.get("dtype", next((a for a in args if isinstance(a, torch.dtype)), None))
        result = bindings.empty_with_layout(self.shape, device_layout, dtype or self.dtype, target)
        return result.copy_(self)

    del to.__wrapped__  # what it wraps has no signature to look at
    torch.Tensor.to = to  # type: ignore[method-assign]


def _patch_printing() -> None:
    # Formatting computes in float64, which the card lacks. The card's name stands at the end.
    printing = torch._tensor_str
    elements, with_suffixes = printing._tensor_str, printing._add_suffixes

    @functools.wraps(elements)
    def tensor_str(tensor, indent):
        return elements(tensor.cpu() if tensor.device.type == "spyre" else tensor, indent)

    @functools.wraps(with_suffixes)
    def add_suffixes(text, suffixes, indent, force_newline):
        card_last = sorted(suffixes, key=lambda suffix: suffix.startswith("device='spyre"))
        return with_suffixes(text, card_last, indent, force_newline)

    printing._tensor_str, printing._add_suffixes = tensor_str, add_suffixes


def _touches_device(gm: torch.fx.GraphModule, inputs) -> bool:
    def on_device(value) -> bool:
        if isinstance(value, (list, tuple)):
            return any(on_device(item) for item in value)
        return isinstance(value, torch.Tensor) and value.device.type == "spyre"

    if on_device(list(inputs)):
        return True
    return any(
        on_device(node.meta.get("example_value", node.meta.get("val")))
        or getattr(node.kwargs.get("device"), "type", node.kwargs.get("device")) == "spyre"
        for node in gm.graph.nodes
    )


def _patch_inductor() -> None:
    # torch.compile() without a backend name makes one of these and calls it with each graph.
    wrapper = torch._TorchCompileInductorWrapper
    original = wrapper.__call__

    @functools.wraps(original)
    def call(self, model, inputs, **options):
        if _touches_device(model, inputs):
            from ..compile.backend import spyre_backend

            return spyre_backend(model, inputs)
        if os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1":
            from ..debug.diagrams import spare_inductor

            spare_inductor()
        return original(self, model, inputs, **options)

    wrapper.__call__ = call  # type: ignore[method-assign, assignment]


def install() -> None:
    torch.Tensor.device_tensor_layout = device_tensor_layout  # type: ignore[attr-defined]
    torch.Tensor._spyre_tensor_patched = True  # type: ignore[attr-defined]
    _patch_to()
    torch.empty = _patch_empty(torch.empty)
    _patch_printing()
    _patch_inductor()
    model_utils.patch_module_to_for_spyre()
