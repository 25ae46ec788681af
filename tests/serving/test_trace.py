# SPDX-License-Identifier: Apache-2.0
"""aiu-trace-analyzer reads traces of torch.profiler and of vLLM's server. Long: run by `make
test-serving`."""

import json
import pathlib

import environment
import pytest
import torch_spyre
from environment import PYTHON, run
from server import Server

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


def analyse(trace, out, folder):
    """acelyzer's events."""
    clock = int(torch_spyre._C._card_constants()["CLOCK"])
    run(pathlib.Path(PYTHON).with_name("acelyzer"), "-i", trace, "-c", folder,
        f"--freq={clock}:{clock}", "-o", out)  # fmt: skip
    return json.loads(out.read_text())["traceEvents"]


def utilisation(events):
    """Of kernels that have one, by the moment at which they begin."""
    return {e["ts"]: e["args"]["Percent"] for e in events
            if e["name"] == "PT Active" and e["args"]["Percent"]}  # fmt: skip


def test_utilisation_by_opfunc_and_rates_of_transfers(tmp_path):
    trace, out = tmp_path / "trace.json", tmp_path / "analysed.json"
    run("-c", PROGRAM, trace, SPYRE_KERNEL_FILES="1", TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    events = analyse(trace, out, tmp_path / "perf")
    ours = [e["args"]["PT utilization (%)"] for e in ours_of(trace, "kernel")]
    busy = [pytest.approx(value, rel=0.01) for value in ours if value]
    assert [*utilisation(events).values()] == busy and len(busy) == 6
    moved = [e["args"]["memory bandwidth (GB/s)"] for e in ours_of(trace, "gpu_memcpy")]
    rates = [e["args"]["GB/s"] for e in events if e["name"] == "TransferBW"]
    assert len(moved) == 6 and [rate for rate in rates if rate] == pytest.approx(moved, rel=0.01)
    rows = [
        line.split() for line in (tmp_path / "analysed_categories.txt").read_text().splitlines()
    ]
    calls = {row[2]: int(row[5]) for row in rows[1:]}
    assert calls["batchmatmul"] == 6 and calls["gelufwd"] == 3 and not calls["other"]


def test_a_served_request(model, tmp_path):
    """Programs of several sizes have kernels of the same names, of which acelyzer knows one: most
    kernels have their own utilisation, not all."""
    settings = {"profiler": "torch", "torch_profiler_dir": str(tmp_path / "traces"),
                "torch_profiler_use_gzip": False}  # fmt: skip
    server = Server(model, tmp_path / "log", "--max-num-seqs", "1", "--profiler-config",
                    json.dumps(settings), SPYRE_KERNEL_FILES="1",
                    TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).wait()  # fmt: skip
    try:
        server.post("/start_profile")
        assert len(server.complete("w1 w2 w3", 4).split()) == 4
        server.post("/stop_profile")
    finally:
        server.end()
    (trace,) = (tmp_path / "traces").glob("*-rank-0.*.pt.trace.json")
    theirs = utilisation(analyse(trace, tmp_path / "analysed.json", tmp_path / "perf"))
    name = "PT utilization (%)"  # which a kernel of no time lacks
    ours = {e["ts"]: e["args"].get(name) for e in ours_of(trace, "kernel")}
    busy = {ts: value for ts, value in ours.items() if value}
    same = [ts for ts in busy if theirs.get(ts) == pytest.approx(busy[ts], rel=0.03)]
    assert len(same) > len(busy) / 2 > 2 * 4  # two products at least for each layer and token
    assert ours_of(trace, "gpu_memcpy")
