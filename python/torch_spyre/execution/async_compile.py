# SPDX-License-Identifier: Apache-2.0
"""What a generated program calls: kernels from OpSpecs, and tensors laid out as they want them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .. import _C
from ..compile.planned.op_spec import KernelSpec, LoopSpec, UnimplementedOp
from .kernel_runner import SpyreSDSCKernelRunner, SpyreUnimplementedRunner

__all__ = ["SpyreAsyncCompile", "SpyreSDSCKernelRunner", "SpyreUnimplementedRunner", "placed"]


class SpyreAsyncCompile:
    """Compiles at once: a kernel takes milliseconds."""

    def sdsc(
        self, name: str, specs: KernelSpec
    ) -> SpyreSDSCKernelRunner | SpyreUnimplementedRunner:
        """The kernel of these specs, ready to run.

        Raises: Unsupported for specs that the card cannot run.
        """
        missing = _find_unimplemented(specs)
        if missing is not None:
            return SpyreUnimplementedRunner(name, missing.op)
        return SpyreSDSCKernelRunner(name, specs)

    def wait(self, scope: Mapping[str, Any]) -> None:
        """For the form's sake: nothing is under way."""


def _find_unimplemented(specs: KernelSpec) -> UnimplementedOp | None:
    for spec in specs:
        if isinstance(spec, UnimplementedOp):
            return spec
        found = _find_unimplemented(spec.body) if isinstance(spec, LoopSpec) else None
        if found is not None:
            return found
    return None


def placed(
    tensor: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    layout: _C.SpyreTensorLayout,
) -> torch.Tensor:
    """A tensor of any shape over a storage of these sizes and strides (elements) that lies as
    `layout` says: `tensor` itself, or a copy."""
    if (
        tensor.device.type == "spyre"
        and tensor.storage_offset() == 0
        and tuple(tensor.shape) == tuple(size)
        and tuple(tensor.stride()) == tuple(stride)
        and _C.get_spyre_tensor_layout(tensor) == layout
    ):
        return tensor
    storage = _C.spyre_empty_with_layout(list(size), list(stride), tensor.dtype, layout)
    view = storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return view.copy_(tensor)
