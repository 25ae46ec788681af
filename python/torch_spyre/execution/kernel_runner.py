# SPDX-License-Identifier: Apache-2.0
"""What runs a kernel, under torch-spyre's module name."""

from __future__ import annotations

import json

import torch

from .. import _C
from ..compile import call_compiler
from ..compile.planned.op_spec import KernelSpec, to_json
from ..debug import failures, kernel_files

launch_jobplan = _C.launch_jobplan
prepare_kernel = _C.prepare_kernel


class SpyreSDSCKernelRunner:
    """A compiled kernel. `run` takes the tensors in the order of arg_index, results included."""

    def __init__(self, name: str, specs: KernelSpec):
        self.name = name
        self.specs = specs
        text = json.dumps(to_json(specs))
        named = torch.profiler.record_function(f"dxp_standalone:{name}")
        with named, failures.reported("compile_backend", name):
            self.executable = _C.compile_op_specs(text, name, call_compiler.settings())
        if kernel_files.wanted():
            kernel_files.write(self.executable, 0, name)

    def run(self, *tensors: torch.Tensor) -> None:
        """Launches the kernel. Tensors are of any shape that has the layouts of the specs, in the
        order of arg_index, results included. Does not wait.

        Raises: ValueError for another number of tensors and for a tensor that is elsewhere or
        lies otherwise on the card.
        """
        with failures.reported("runtime_launch", self.name):
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
        """Raises: RuntimeError, for tensors of any shape: the operation has no lowering."""
        text = f"Invoked {self.name} which contains unimplemented operation {self.op}"
        with failures.reported("unimplemented", self.name):
            raise RuntimeError(text)
