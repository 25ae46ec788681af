# SPDX-License-Identifier: Apache-2.0
"""The PyTorch device `spyre`: an IBM Spyre AI card, emulated.

`import torch` alone registers the device (entry point `torch.backends`); nothing starts before
the first tensor of the device. See docs/python.md.
"""

from __future__ import annotations

import os
import warnings

from . import logging_config  # noqa: F401  (before torch, which reads TORCH_LOGS)

_registrations: list = []
_imported = False


def _autoload() -> None:
    """Registers the device with PyTorch, once; the entry point of `torch.backends`."""
    # `import torch_spyre` before torch: torch calls this while this module waits for torch.
    if not _imported or _registrations:
        return
    from ._pytorch import patches
    from .device import autocast, bindings, namespace
    from .eager import kernels

    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if os.environ.get("TORCHINDUCTOR_FORCE_DISABLE_CACHES") == "1":
        os.environ.setdefault("SPYRE_CACHE", "0")
    if os.environ.get("TORCH_SPYRE_DOWNCAST_WARN", "1").lower() in ("0", "false", "off"):
        _C.set_downcast_warning(False)
    torch.utils.rename_privateuse1_backend(DEVICE_NAME)
    torch._register_device_module(DEVICE_NAME, namespace.make_module())
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _registrations.extend(kernels.register())
    _registrations.extend(autocast.register())
    bindings.install()
    patches.install()
    from .compile import composed, convolution, customops, fastpath, nn_parts  # noqa: F401

    _registrations.extend((composed.register(), customops.register()))


import torch  # noqa: E402

from . import _C, _formats  # noqa: E402, F401  (_formats completes _C)
from ._C import (  # noqa: E402
    DataFormats,
    ElementArrangement,
    SpyreTensorLayout,
    Unsupported,
    __version__,
    compile_statistics,
    get_spyre_tensor_layout,
    set_spyre_tensor_layout,
)
from .constants import DEVICE_NAME  # noqa: E402
from .eager.host import FallbackWarning, user_level  # noqa: E402

__all__ = [
    "DataFormats",
    "ElementArrangement",
    "FallbackWarning",
    "SpyreTensorLayout",
    "Unsupported",
    "__version__",
    "compile_reports",
    "compile_statistics",
    "get_spyre_tensor_layout",
    "last_report",
    "set_spyre_tensor_layout",
]

# Logging of the proprietary stack stays quiet should a script load it as well.
_QUIET = {"TORCH_SENDNN_LOG": "CRITICAL", "DT_DEEPRT_VERBOSE": "-1", "DTLOG_LEVEL": "error"}


def _warn_downcast() -> bool:
    """Called by copies of int64 values to the card until it has warned; True when it need not be
    called again."""
    if not _C.get_downcast_warning():
        return False
    warnings.warn(
        "spyre does not support int64: kept as int32; operators on values outside 32 bits run on "
        "the host",
        UserWarning,
        stacklevel=user_level(),
    )
    return not torch.is_warn_always_enabled()


def compile_reports() -> list:
    """Reports of the graphs that torch.compile gave to the card, oldest first."""
    from .report import reports

    return list(reports)


def last_report():
    """The report of the graph compiled last, or None."""
    reports = compile_reports()
    return reports[-1] if reports else None


_imported = True
_autoload()
