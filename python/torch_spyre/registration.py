# SPDX-License-Identifier: Apache-2.0
"""How the device becomes one of PyTorch's, in two steps.

register() is all that `import torch` does: the binding, the name, `torch.spyre`, the methods that
PyTorch makes for a device, and the way of torch.compile() to this package. complete() is the rest,
at the first use of the device: by PyTorch's call of `torch.spyre._lazy_init()`, by the binding when
the runtime starts, or by a name of `torch_spyre._C` or `torch.ops.spyre` that is not there yet.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any

import torch
from torch.utils import backend_registration

from . import _C
from ._pytorch import compile_options, distributed, dynamo_interface, patches
from ._pytorch.dispatch import LazyNamespace, register_module
from ._pytorch.inductor import inductor_modules
from .constants import DEVICE_NAME
from .device import memory, namespace

_lock = threading.RLock()
_running = False
_DOWNCAST_WARN = "TORCH_SPYRE_DOWNCAST_WARN"
_libraries: list[torch.library.Library] = []  # registrations live as long as these


def register() -> None:
    """What `import torch` does."""
    backend_registration.rename_privateuse1_backend(DEVICE_NAME)
    register_module(DEVICE_NAME, namespace.make_module())
    _C._on_empty_cache(memory.forget_programs)
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    torch.Tensor.device_tensor_layout = _device_tensor_layout  # type: ignore[attr-defined]
    torch.Tensor._spyre_tensor_patched = True  # type: ignore[attr-defined]
    patches.send_graphs_of_the_device_here()
    compile_options.take_settings()
    inductor_modules.name_them_all()
    _C._on_first_use(complete)
    _C._on_layout(_take_layouts)
    _C._on_wide(_warn_wide)
    vars(_C)["__getattr__"] = _missing_name
    LazyNamespace.install("spyre", _C._complete)
    distributed.register()
    _C.createSpyreCCLBackend = distributed.create_backend


def complete() -> None:
    """What the first use of the device does. Calls behind the first one return at once."""
    global _running
    with _lock:
        if _running:
            return
        from . import config, environment  # noqa: F401  (config reads variables)

        environment.check()
        _running = True
        _register_kernels()
        _C._on_first_use(None)


def _register_kernels() -> None:
    from . import _formats, environment, logging_config  # noqa: F401  (_formats completes _C)
    from ._pytorch import layout_arguments, process_queues, random_states
    from .compile import customops
    from .compile.customops import composite_operators, paged_attention
    from .compile.decompositions.convolutions import convolution_forms  # noqa: F401  (registers)
    from .compile.layers import nn_layers, stable_forms, transformer_fastpath  # noqa: F401
    from .device import autocast, c_names
    from .eager import kernel_registration, second_moments

    warns = os.environ.get(_DOWNCAST_WARN) or "1"
    if not environment.is_on(_DOWNCAST_WARN, warns):
        _C.set_downcast_warning(False)
    c_names.install()
    atexit.register(_C._leave)
    _libraries.extend(
        (composite_operators.register(), customops.register(), paged_attention.register())
    )
    _libraries.extend(kernel_registration.register())
    _libraries.extend(autocast.register())
    patches.print_by_one_copy()
    process_queues.refuse_tensors_of_the_device()
    patches.allow_flex_attention()
    random_states.install()
    second_moments.install()
    layout_arguments.install()
    dynamo_interface.register_if_imported()


def _take_layouts() -> None:
    from . import _formats  # noqa: F401  (whose function reads pickles)
    from ._pytorch import layout_arguments

    layout_arguments.install()


def _warn_wide() -> bool:
    """Called by copies of int64 values beyond 32 bits to the card until it returns True."""
    from .eager.run_on_cpu import warn_wide

    return warn_wide()


def _missing_name(name: str) -> Any:
    """A name of `_C` that Python adds to it."""
    if not name.startswith("__"):
        complete()
        if name in vars(_C):
            return vars(_C)[name]
    raise AttributeError(f"module {_C.__name__!r} has no attribute {name!r}")


def _device_tensor_layout(tensor: torch.Tensor) -> _C.SpyreTensorLayout | None:
    """The layout of a tensor's storage on the card; None for a tensor of another device and for one
    without values (fake, meta)."""
    from .device.c_names import device_tensor_layout

    return device_tensor_layout(tensor)
