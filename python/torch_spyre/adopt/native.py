# SPDX-License-Identifier: Apache-2.0
"""The `torch_spyre._C` that torch-spyre's own package imports: the binding with the functions that
Python adds to it, and the operators that torch-spyre registers in C++."""

from __future__ import annotations

import atexit
import os
import types

import torch

from .. import _C, _formats  # noqa: F401  (_formats completes _C)
from .._pytorch import distributed
from ..device import autocast, c_names
from ..eager import resize
from . import collectives, differences, packer

_libraries: list[torch.library.Library | None] = []  # registrations live as long as these


def fill_tensor(self: torch.Tensor, value: float) -> torch.Tensor:
    """c_names.fill_tensor() for a package whose own `aten::fill_` calls it.

    Raises: RuntimeError for a tensor of another device or without elements.
    """
    c_names.check_fill(self)
    number = torch.full((), value).to(self.dtype)
    return _C.copy_tensor(number.expand(self.shape), self)


def module() -> types.ModuleType:
    """The binding, complete. To be called once."""
    c_names.install()
    _C._print_no_arrangement()  # generated programs evaluate the text without that enumeration
    _C.createSpyreCCLBackend = distributed.create_backend
    _C.fill_tensor = fill_tensor
    vars(_C)["NativePermutationLayoutSolver"] = packer.NativePermutationLayoutSolver
    if os.environ.get("TORCH_SPYRE_DOWNCAST_WARN", "1").lower() in ("0", "false", "off"):
        _C.set_downcast_warning(False)
    _libraries.extend(autocast.register())
    _libraries.append(resize.register())
    _libraries.append(collectives.register())
    atexit.register(_C._leave)
    differences.install()
    return _C
