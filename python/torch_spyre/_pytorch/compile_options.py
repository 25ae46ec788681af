# SPDX-License-Identifier: Apache-2.0
"""`torch.compile(options=...)` takes the settings of this compiler.

torch.compile() without a backend name gives its options to `_TorchCompileInductorWrapper`, which
knows Inductor's only and raises for any other before a graph, and by that its device, is known. No
hook adds to the list. Keys of this compiler are kept apart (`_spyre_settings`), so that Inductor
never sees them; graphs of other devices do not either.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import dynamo_interface

NO_AOT = (
    "AOTInductor makes no code for spyre: save the program with torch.export.save() and give "
    "torch.compile() what torch.export.load(..).module() returns"
)


def settings_of(wrapper: Any) -> dict[str, Any]:
    """What the options of a torch.compile() say to this compiler."""
    settings: dict[str, Any] = wrapper.__dict__.get("_spyre_settings", {})
    return settings


def take_settings() -> None:
    """Once, when the device is registered."""
    wrapper = torch._TorchCompileInductorWrapper
    apply: Callable[..., None] = wrapper.apply_options
    equal: Callable[..., object] = wrapper.__eq__

    @functools.wraps(apply)
    def apply_options(self: Any, options: dict[str, Any] | None) -> None:
        dynamo_interface.register()
        if not options:
            return
        from ..compile import options as own

        settings, rest = own.split(options)
        own.check_names(rest)
        if settings:
            self._spyre_settings = {**settings_of(self), **settings}
        apply(self, rest)

    @functools.wraps(equal)
    def same(self: Any, other: Any) -> bool:
        return bool(equal(self, other)) and settings_of(self) == settings_of(other)

    wrapper.apply_options = apply_options  # type: ignore[method-assign]
    wrapper.__eq__ = same  # type: ignore[method-assign]
