# SPDX-License-Identifier: Apache-2.0
"""aiu-trace-analyzer reads a trace of torch.profiler. Long: run by `make test-serving`."""

import json
import pathlib

import environment
import pytest
import torch_spyre
from environment import PYTHON, run

environment.need()
pytestmark = pytest.mark.long

PROGRAM = """
import sys, torch
from torch.profiler import ProfilerActivity, profile
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
model = model.half().to("spyre").requires_grad_(False)
compiled, x = torch.compile(model), torch.randn(64, 256).half()
compiled(x.to("spyre"))
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as traced:
    for _ in range(3):
        compiled(x.to("spyre")).cpu()
    torch.spyre.synchronize()
traced.export_chrome_trace(sys.argv[1])
"""


def ours_of(trace, category):
    events = json.loads(trace.read_text())["traceEvents"]
    return [e for e in events if e.get("cat") == category]


def test_utilisation_by_opfunc_and_rates_of_transfers(tmp_path):
    trace, out = tmp_path / "trace.json", tmp_path / "analysed.json"
    run("-c", PROGRAM, trace, SPYRE_KERNEL_FILES="1", TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    clock = int(torch_spyre._C._card_constants()["CLOCK"])
    run(pathlib.Path(PYTHON).with_name("acelyzer"), "-i", trace, "-c", tmp_path / "perf",
        f"--freq={clock}:{clock}", "-o", out)  # fmt: skip
    ours = [e["args"]["PT utilization (%)"] for e in ours_of(trace, "kernel")]
    events = json.loads(out.read_text())["traceEvents"]
    theirs = [e["args"]["Percent"] for e in events if e["name"] == "PT Active"]
    busy = [pytest.approx(value, rel=0.01) for value in ours if value]
    assert [value for value in theirs if value] == busy and len(busy) == 6
    moved = [e["args"]["memory bandwidth (GB/s)"] for e in ours_of(trace, "gpu_memcpy")]
    rates = [e["args"]["GB/s"] for e in events if e["name"] == "TransferBW"]
    assert len(moved) == 6 and [rate for rate in rates if rate] == pytest.approx(moved, rel=0.01)
    rows = [
        line.split() for line in (tmp_path / "analysed_categories.txt").read_text().splitlines()
    ]
    calls = {row[2]: int(row[5]) for row in rows[1:]}
    assert calls["batchmatmul"] == 6 and calls["gelufwd"] == 3 and not calls["other"]
