# SPDX-License-Identifier: Apache-2.0
"""What is still replaced of PyTorch's own functions, each with the reason why no hook does it. The
functions that take `device_layout` are in layout_arguments.py, the reader of TORCH_LOGS in logs.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .. import _C
from . import compile_options


def _touches_device(gm: torch.fx.GraphModule, inputs: Any) -> bool:
    def on_device(value: Any) -> bool:
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


def send_graphs_of_the_device_here() -> None:
    """torch.compile() without a backend name makes an object of this class and calls it with each
    graph; graphs of the device go to this package, others take the way that they always take.

    Inductor's own hook (register_backend_for_device) gets graphs when they are decomposed for it
    and joint passes have rewritten them; and torch.compile() gives a device no choice of backend.
    """
    wrapper = torch._TorchCompileInductorWrapper
    original: Callable[..., Any] = wrapper.__call__

    @functools.wraps(original)
    def call(self: Any, model: Any, inputs: Any, **options: Any) -> Any:
        if not _touches_device(model, inputs):
            return original(self, model, inputs, **options)
        if self.compiler_name == "aotinductor":
            raise _C.Unsupported(compile_options.NO_AOT)
        from ..compile.backend import compile_graph_of_user

        return compile_graph_of_user(model, inputs, compile_options.settings_of(self))

    wrapper.__call__ = call  # type: ignore[method-assign, assignment]


def print_by_one_copy() -> None:
    """Formatting calls dozens of operators, in float64, and PyTorch copies to the host first for a
    list of devices only, which cannot be added to. Tensors of other devices are not looked at.
    Installed at the first use of the device."""
    printing = torch._tensor_str
    elements: Callable[..., str] = printing._tensor_str
    with_suffixes: Callable[..., str] = printing._add_suffixes

    @functools.wraps(elements)
    def tensor_str(tensor: torch.Tensor, indent: int) -> str:
        return elements(tensor.cpu() if tensor.device.type == "spyre" else tensor, indent)

    @functools.wraps(with_suffixes)
    def add_suffixes(text: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
        card_last = sorted(suffixes, key=lambda suffix: suffix.startswith("device='spyre"))
        return with_suffixes(text, card_last, indent, force_newline)

    printing._tensor_str, printing._add_suffixes = tensor_str, add_suffixes


def allow_flex_attention() -> None:
    """It asks for a device of a list, which cannot be added to. Tensors of other devices go on to
    PyTorch's function."""
    from torch.nn.attention import flex_attention

    original: Callable[..., None] = flex_attention._validate_device

    @functools.wraps(original)
    def validate(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != "spyre":
            original(query, key, value)

    flex_attention._validate_device = validate


def _names_device(value: Any) -> bool:
    """Whether an argument of `Module.to` may mean a card; an index means the accelerator's."""
    if isinstance(value, torch.Tensor):
        value = value.device
    if isinstance(value, torch.device):
        return value.type == "spyre"
    return isinstance(value, str) and value.startswith("spyre") or type(value) is int


def lay_out_weights_in_module_to(move: Callable[..., Any]) -> None:
    """Installed for those who ask for it (`model_utils.patch_module_to_for_spyre`), once: PyTorch
    tells a device which tensor it copies, never which module owns it. Calls that name another
    device, or none, go to PyTorch's function unread; others are
    move(module, device, dtype, non_blocking)."""
    module = torch.nn.Module
    original = module.to
    if getattr(original, "_spyre_patched", False):
        return

    @functools.wraps(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(map(_names_device, (*args, *kwargs.values()))):
            return original(self, *args, **kwargs)
        device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(*args, **kwargs)
        ours = device is not None and device.type == "spyre" and memory_format is None
        if not ours or (dtype is not None and not dtype.is_floating_point):
            return original(self, *args, **kwargs)
        return move(self, device, dtype, non_blocking)

    to._spyre_patched = True  # type: ignore[attr-defined]
    module.to = to  # type: ignore[method-assign]
