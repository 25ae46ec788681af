# SPDX-License-Identifier: Apache-2.0
"""`torch.compile(options=...)` and `mode=` for graphs of the device.

    torch.compile(f, options={"sencores": 4, "lx_planning": False})

Keys are the settings of `torch_spyre.config`, which then hold for the programs of this function
alone, and those of `torch._inductor.config`, which have no effect on the card. Any other key is
PyTorch's RuntimeError, which names the nearest known ones. Values of a setting have its type and
obey its rule (ValueError).

The modes are those of PyTorch. What they choose (CUDA graphs, Triton's autotuning) does not exist
on the card, so they change nothing there.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from .. import config, setting_rules
from .._pytorch.inductor import inductor_options

_NEAREST = 3
_NUMBERS = (int, float)


def known_settings() -> dict[str, Any]:
    """The settings by name, with their present values."""
    values = config.get_config_copy()
    names = {name for name in values if not name.startswith("_")}
    return {name: getattr(config, name) for name in sorted({*names, "hbm_pool_planning"})}


def split(options: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """(settings, the rest) of the options of a torch.compile(). Raises RuntimeError for a value of
    another type than the setting has, ValueError for one that breaks the setting's rule."""
    known = known_settings()
    settings, rest = {}, {}
    for key, value in (options or {}).items():
        name = key.replace("-", "_")
        if name in known:
            settings[name] = _checked(key, value, known[name])
        else:
            rest[key] = value
    return settings, rest


def _checked(key: str, value: Any, present: Any) -> Any:
    fits = isinstance(value, type(present))
    if isinstance(present, _NUMBERS) and not isinstance(present, bool):
        fits = isinstance(value, _NUMBERS) and not isinstance(value, bool)
    if not fits:
        raise RuntimeError(
            f"Unexpected type of attr {key}, got {type(value).__name__} should be "
            f"{type(present).__name__}"
        )
    setting_rules.check(key.replace("-", "_"), value)
    return value


def check_names(options: Mapping[str, Any]) -> None:
    """Raises RuntimeError for an option that neither this compiler nor Inductor has."""
    theirs = inductor_options.known_options()
    ours = list(known_settings())
    for key in options:
        if key.replace("-", "_") not in theirs:
            nearest = difflib.get_close_matches(key, [*ours, *theirs], _NEAREST, cutoff=0.5)
            nearest = nearest or difflib.get_close_matches(key, [*ours, *theirs], 1, cutoff=0.0)
            raise RuntimeError(
                f"Unexpected optimization option {key}, the nearest known are "
                f"{', '.join(nearest)}; known options are {[*ours, *theirs]}"
            )


def of_backend(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of torch.compile(backend="spyre", mode=, options=). Raises RuntimeError for
    unknown names."""
    if mode is not None:
        inductor_options.check_mode(mode)
    settings, rest = split(options)
    check_names(rest)
    return settings
