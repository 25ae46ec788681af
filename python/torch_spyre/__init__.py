# SPDX-License-Identifier: Apache-2.0
"""The PyTorch device `spyre`: an IBM Spyre AI card, emulated.

`import torch` alone registers the device (entry point `torch.backends`). What only programs of the
device need is registered when the first of them uses it; nothing starts before. See docs/python.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_imported = False
_registered = globals().get("_registered", False)  # already, if importlib.reload() is at work


def _autoload() -> None:
    """Registers the device with PyTorch, once; the entry point of `torch.backends`."""
    from ._pytorch import logs

    logs.take_own_entries()  # before PyTorch reads TORCH_LOGS
    # `import torch_spyre` before torch: torch calls this while this module waits for torch.
    global _registered
    if not _imported or _registered:
        return
    from . import registration

    _registered = True
    registration.register()


import torch  # noqa: E402, F401

from . import _C  # noqa: E402, F401
from ._C import __version__  # noqa: E402

if TYPE_CHECKING:
    from ._C import (
        ArgumentError,
        DataFormats,
        ElementArrangement,
        IndexFault,
        InternalError,
        SpyreTensorLayout,
        Unsupported,
        compile_statistics,
        get_spyre_tensor_layout,
        set_spyre_tensor_layout,
    )
    from ._fallback import (
        FallbackError,
        FallbackWarning,
        fallback,
        fallback_report,
        reset_fallback_report,
    )
    from .report import compile_reports, last_report

__all__ = [
    "ArgumentError",
    "DataFormats",
    "ElementArrangement",
    "FallbackError",
    "FallbackWarning",
    "IndexFault",
    "InternalError",
    "SpyreTensorLayout",
    "Unsupported",
    "__version__",
    "compile_reports",
    "compile_statistics",
    "fallback",
    "fallback_report",
    "get_spyre_tensor_layout",
    "last_report",
    "reset_fallback_report",
    "set_spyre_tensor_layout",
]

_HOMES = {
    "FallbackError": "_fallback",
    "FallbackWarning": "_fallback",
    "fallback": "_fallback",
    "fallback_report": "_fallback",
    "reset_fallback_report": "_fallback",
    "compile_reports": "report",
    "last_report": "report",
}


def __getattr__(name: str) -> Any:
    """Public names and modules, which `import torch` alone does not load."""
    if name not in __all__:
        return _module(name)
    home = importlib.import_module(f".{_HOMES.get(name, '_C')}", __name__)
    value = globals()[name] = getattr(home, name)
    return value


def _module(name: str) -> Any:
    path = f"{__name__}.{name}"
    try:
        if not name.startswith("__"):
            return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_imported = True
_autoload()
