# SPDX-License-Identifier: Apache-2.0
"""A backend as a real one is built: partition, compile, serialise; another process runs the bytes.

    python examples/pipeline.py

Operations and kernels are those of my_accel.py and kernel_lib.py, the runtime is
pipeline_runtime.py. See docs/backends.md.
"""

import itertools
import pathlib
import subprocess
import sys
import tempfile

import kernel_lib
import numpy as np
import torch
from my_accel import REGISTRY, ThreeOps, is_call, weights_of
from pipeline_runtime import Program, pack


def partition(gm):
    """[(on the accelerator, nodes)]: runs of calls that one side takes."""
    calls = [node for node in gm.graph.nodes if is_call(node)]
    return [
        (s, list(nodes)) for s, nodes in itertools.groupby(calls, lambda n: n.target in REGISTRY)
    ]


def compile_graph(gm, weights):
    """(instructions, blocks): compact instructions, and the bytes of kernels and weights."""
    instructions = []
    blocks = {name: w.numpy().tobytes() for name, w in weights.items()}
    for node in gm.graph.nodes:
        tensors = [n.name for n in node.all_input_nodes]
        if node.op == "placeholder" and node.name not in weights:
            instructions.append({"op": "input", "name": node.name})
        elif node.op == "output":
            shapes = {name: list(w.shape) for name, w in weights.items()}
            instructions.append({"op": "output", "args": tensors, "weights": shapes})
        elif node.target in REGISTRY:
            kernel = REGISTRY[node.target]
            shapes = [tuple(n.meta["example_value"].shape) for n in node.all_input_nodes]
            dim = {"dim": node.kwargs.get("dim", node.args[-1])} if kernel == "softmax" else {}
            blocks[node.name] = kernel_lib.build(kernel, shapes, **dim)
            instructions.append(
                {"op": "kernel", "name": node.name, "kernel": kernel, "args": tensors,
                 "shape": list(kernel_lib.result_shape(kernel, shapes))}
            )  # fmt: skip
        elif is_call(node):
            function = getattr(node.target, "__name__", node.target)
            instructions.append(
                {"op": "fallback", "name": node.name, "function": function, "args": tensors}
            )
    return instructions, blocks


blob = b""  # of the graph compiled last


def pipeline_backend(gm: torch.fx.GraphModule, example_inputs):
    global blob
    print("PIPELINE BACKEND - GRAPH RECEIVED")
    segments = partition(gm)
    print(f"Partitioned into {len(segments)} segment(s)")
    for number, (supported, nodes) in enumerate(segments):
        print(
            f"  Segment {number}: {'accelerator' if supported else 'fallback'} ({len(nodes)} ops)"
        )
    weights = weights_of(gm, example_inputs)
    instructions, blocks = compile_graph(gm, weights)
    print(f"Compiled program length: {len(instructions)}")
    blob = pack(instructions, blocks)
    print(f"Serialized program bytes: {len(blob)}")
    program = Program(blob)  # from here on there is no graph
    names = [node.name for node in gm.graph.find_nodes(op="placeholder")]

    def run(*args):
        given = [a.numpy() for name, a in zip(names, args, strict=True) if name not in weights]
        return (torch.from_numpy(program(*given)),)

    return run


def run_elsewhere(program, x):
    """Runs the bytes in a process that never sees PyTorch."""
    runtime = pathlib.Path(__file__).with_name("pipeline_runtime.py")
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, name) for name in ("program.bin", "x.npy", "y.npy")]
        files[0].write_bytes(program)
        np.save(files[1], x)
        subprocess.run([sys.executable, runtime, *files], check=True)
        return np.load(files[2])


def main():
    torch.manual_seed(0)
    compiled = torch.compile(ThreeOps(), backend=pipeline_backend)
    x = torch.randn(4, 8, dtype=torch.float16)
    with torch.no_grad():
        here = compiled(x).numpy()
    print("--- IN A NEW PROCESS ---", flush=True)
    there = run_elsewhere(blob, x.numpy())
    print(f"Output shape: {list(there.shape)}, sum: {there.astype(np.float32).sum():.2f}")
    print(f"Same bits: {np.array_equal(here, there)}")


if __name__ == "__main__":
    main()
