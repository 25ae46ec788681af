# SPDX-License-Identifier: Apache-2.0
"""KTIR kernels: a run on tensors of the host, and the text to a program. The texts are those of
torch-spyre/ktir-cpu's examples; KTIR_CPU names a checkout of it. Its own interpreter is timed
beside, KTIR_CPU_RUNS times, which takes minutes. Processor time counts all threads: SPYRE_THREADS=1
has one."""

import importlib
import os
import pathlib
import sys
import time
from collections.abc import Callable

import torch
import torch_spyre.ktir as ktir
from harness import Table, best_of_turn
from torch_spyre import _C

COLUMNS = [
    *("run ms", "ktir-cpu ms", "x ktir-cpu"),
    *("run cpu", "ktir-cpu cpu", "x cpu"),
    *("parse MB/s", "+lower MB/s"),
]
RUNS = 50  # of those whose processor time is the least
ROWS = 163840  # of rope: 40 heads of 4096 positions


def _softmax() -> dict:
    x = torch.randn(4096, 1024).half()
    return {"input_ptr": x, "output_ptr": torch.zeros_like(x), "n_rows": 4096}


def _matmul() -> dict:
    a, b = torch.randn(1024, 2048).half(), torch.randn(2048, 8192).half()
    blocks = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 512, "BLOCK_SIZE_K": 128}
    c = torch.zeros(1024, 8192).half()
    return {"a_ptr": a, "b_ptr": b, "c_ptr": c, "K": 2048} | blocks


def _rope() -> dict:
    x, cos, sin = (torch.randn(n, m).half() for n, m in ((ROWS, 128), (4096, 64), (4096, 64)))
    return {"x_ptr": x, "cos_ptr": cos, "sin_ptr": sin, "out_ptr": torch.zeros_like(x)}


def _widened(text: str) -> str:
    """The example's product of 64 rows with 1024, on a grid of 32 x 16."""
    for old, new in (
        ("[64, ", "[1024, "),
        ("-d0 + 63 ", "-d0 + 1023 "),
        ("<64x", "<1024x"),
        ("[2, 16]", "[32, 16]"),
    ):
        text = text.replace(old, new)
    return text


CASES: dict[str, tuple[str, Callable[[str], str], Callable[[], dict]]] = {
    "softmax 4096x1024": ("triton-ktir/softmax_fwd_ktir.mlir", str, _softmax),
    "matmul 1024x2048x8192": ("triton-ktir/matmul_fwd_ktir.mlir", _widened, _matmul),
    "rope 163840x128": ("latency/rope_fwd_4x2.mlir", str, _rope),
}


def _least(call: Callable[[], object], runs: int) -> tuple[float, float]:
    """Milliseconds and milliseconds of the processor, each the least of so many runs."""
    times = []
    for _ in range(runs):
        began, busy = time.perf_counter(), time.process_time()
        call()
        times.append((1e3 * (time.perf_counter() - began), 1e3 * (time.process_time() - busy)))
    wall, cpu = zip(*times, strict=True)
    return min(wall), min(cpu)


def _reference(checkout: str, text: str, function: str, arguments: dict) -> tuple[float, float]:
    runs = int(os.environ.get("KTIR_CPU_RUNS", "0"))
    if not runs:
        return float("nan"), float("nan")
    sys.path.insert(0, checkout)
    interpreter = importlib.import_module("ktir_cpu").KTIRInterpreter()
    interpreter.load(text)
    arrays = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    return _least(lambda: interpreter.execute_function(function, **arrays), runs)


def _row(checkout: str, text: str, arguments: dict) -> dict[str, float]:
    kernel = ktir.loads(text)
    function = kernel.functions[0].name
    parse = best_of_turn(lambda: _C.ktir_parse(text, "kernel.mlir"))
    values, _ = kernel._values(kernel.functions[0], arguments)
    lower = best_of_turn(lambda: kernel._kernel.lower(0, (), 0, values))
    kernel.run(**arguments)
    wall, cpu = _least(lambda: kernel.run(**arguments), RUNS)
    wall_there, cpu_there = _reference(checkout, text, function, arguments)
    times = (wall, wall_there, wall_there / wall, cpu, cpu_there, cpu_there / cpu)
    rates = (len(text) / parse / 1e6, len(text) / (parse + lower) / 1e6)
    return dict(zip(COLUMNS, (*times, *rates), strict=True))


def run(only: str) -> dict[str, dict[str, float]]:
    table = Table("KTIR kernels", COLUMNS, width=12)
    checkout = os.environ.get("KTIR_CPU")
    if not checkout:
        print("KTIR kernels: KTIR_CPU names no checkout of torch-spyre/ktir-cpu")
        return table.rows
    for name, (path, change, arguments) in CASES.items():
        if only in name:
            text = change((pathlib.Path(checkout) / "examples" / path).read_text())
            table.add(name, _row(checkout, text, arguments()))
    return table.rows
