# SPDX-License-Identifier: Apache-2.0
"""What a generated program calls: kernels from OpSpecs, and tensors laid out as they want them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import torch

from .. import _C, handover
from .._inductor import kernel_files
from .._inductor.op_spec import LoopSpec, OpSpec, UnimplementedOp, to_json

__all__ = ["SpyreAsyncCompile", "SpyreSDSCKernelRunner", "SpyreUnimplementedRunner", "placed"]


class SpyreSDSCKernelRunner:
    """A compiled kernel. `run` takes the tensors in the order of arg_index, results included."""

    def __init__(self, name: str, specs: Sequence[OpSpec | LoopSpec | UnimplementedOp]):
        self.name = name
        self.specs = specs
        text = json.dumps(to_json(specs))
        with torch.profiler.record_function(f"dxp_standalone:{name}"):
            self.executable = _C.compile_op_specs(text, name, handover.settings())
        if kernel_files.wanted():
            kernel_files.write(self.executable, 0, name)

    def run(self, *tensors: torch.Tensor) -> None:
        self.executable.run(tensors)

    def write_bundle(self, directory: str) -> None:
        """The SuperDSC-Bundle of the kernel: bundle.mlir and sdsc_<n>.json."""
        self.executable.write(0, "bundle", directory)


class SpyreUnimplementedRunner:
    """A kernel that holds an operation without a lowering; it fails when it is run."""

    def __init__(self, name: str, op: str):
        self.name = name
        self.op = op

    def run(self, *_tensors: torch.Tensor) -> None:
        raise RuntimeError(f"Invoked {self.name} which contains unimplemented operation {self.op}")


class SpyreAsyncCompile:
    """Compiles at once: a kernel takes milliseconds."""

    def sdsc(self, name: str, specs: Sequence[OpSpec | LoopSpec | UnimplementedOp]):
        missing = _find_unimplemented(specs)
        if missing is not None:
            return SpyreUnimplementedRunner(name, missing.op)
        return SpyreSDSCKernelRunner(name, specs)

    def wait(self, scope: dict) -> None:
        """For the form's sake: nothing is under way."""


def _find_unimplemented(specs) -> UnimplementedOp | None:
    for spec in specs:
        if isinstance(spec, UnimplementedOp):
            return spec
        found = _find_unimplemented(spec.body) if isinstance(spec, LoopSpec) else None
        if found is not None:
            return found
    return None


def placed(tensor: torch.Tensor, size, stride, layout) -> torch.Tensor:
    """A tensor over a storage of these sizes and strides that lies as `layout` says: `tensor`
    itself, or a copy."""
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
