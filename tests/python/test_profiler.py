# SPDX-License-Identifier: Apache-2.0
"""torch.profiler on the card: ranges of the host, events of the card, memory, traces."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch
import torch_spyre.profiler
from torch.profiler import ProfilerActivity, _memory_profiler, profile, record_function, schedule

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
FLOAT_US = 2e-3  # what times in a trace, as floats, may be off
MUL = "sdsc_fused_mul_0#0_mul"
OF_PROGRAM = re.compile("_[0-9a-f]{8}(?=#|$)")  # in the name of a kernel
LX_HEAD = re.compile(r"lx \d+ buffers, at most \d+ of (\d+) bytes a core, (\d+) ops")
LX_BUFFER = re.compile(r"^buffer b\d+ lx\((\d+)\+(\d+)\) ops\((\d+)\.\.(\d+)\)", re.MULTILINE)
DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}


def half(*sizes):
    """Values that the card has, too."""
    return torch.randint(-8, 9, sizes).half() / 8


def softmax_of_product(x, y):
    return torch.softmax(x @ y, -1) + x


@pytest.fixture(scope="module")
def compiled():
    """A compiled function, its argument, the counters of its kernels."""
    x = half(64, 64).to("spyre")
    function = torch.compile(softmax_of_product)
    function(x, x)
    return function, x, torch_spyre.last_report().counters


def trace_of(prof, tmp_path):
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    return json.loads(path.read_text())["traceEvents"]


def by_operators(prof):
    return {OF_PROGRAM.sub("", row.key): row for row in prof.key_averages()}


def of_category(events, category):
    return [e for e in events if e.get("cat") == category and e["ph"] == "X"]


def test_is_available():
    assert torch_spyre.profiler.is_available()
    script = "import torch_spyre.profiler as p; print(p.is_available())"
    environment = os.environ | {"USE_SPYRE_PROFILER": "0"}
    run = [sys.executable, "-c", script]
    assert subprocess.check_output(run, env=environment, text=True).strip() == "False"


def test_host_alone_shows_operators_launches_and_compilations(compiled):
    x = half(3, 128).to("spyre")
    function = torch.compile(lambda x: torch.relu(x * 3) - 1)
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        function(x)
        torch.neg(x)
    rows = by_operators(prof)
    assert {"aten::neg", "dxp_standalone:sdsc_fused_neg", "launch_kernel:sdsc_fused_neg_0",
            "dxp_standalone:sdsc_fused_mul_relu_sub"} <= set(rows)  # fmt: skip
    (launch,) = [k for k in rows if k.startswith("launch_kernel:sdsc_fused_") and "relu" in k]
    assert rows[launch].count == 1
    assert sum(row.device_time_total for row in rows.values()) == 0
    assert not [key for key in rows if key.startswith("spyreLaunch")]


def test_device_events_of_eager_operators(tmp_path):
    x = half(64, 64).to("spyre")
    torch.mm(x, x)
    with profile(activities=BOTH) as prof:
        y = torch.mm(x, x)
        y.cpu()
    rows = by_operators(prof)
    kernel = rows["sdsc_fused_batchmatmul_0#0_batchmatmul"]
    assert kernel.self_device_time_total > 0
    assert rows["aten::mm"].device_time_total == pytest.approx(kernel.self_device_time_total)
    copy = rows["Memcpy (DtoH)"]
    # 8192 bytes over PCIe 5.0 x16, to the nanosecond
    assert copy.self_device_time_total == pytest.approx(8192 / 63015, abs=1e-3)
    events = trace_of(prof, tmp_path)
    (event,) = of_category(events, "kernel")
    assert event["args"]["bytes"] == 3 * 8192
    assert event["args"]["source"] == "eager aten.mm.default"
    assert 0 < event["args"]["PT utilization (%)"] <= 100


def test_compiled_kernels_have_the_time_of_the_counters(compiled, tmp_path):
    function, x, counters = compiled
    expected = {k["name"]: k for k in counters}
    with profile(activities=BOTH) as prof:
        function(x, x)
    kernels = of_category(trace_of(prof, tmp_path), "kernel")
    assert [k["name"].partition("#")[2] for k in kernels] == list(expected)
    for event in kernels:
        us = expected[event["name"].partition("#")[2]]["us"]
        assert event["dur"] == pytest.approx(us, abs=2e-3)
        assert "test_profiler.py" in event["args"]["source"]
    ranges = [row for row in prof.key_averages() if row.key.startswith("launch_kernel:")]
    assert len(ranges) == 1 and ranges[0].count == 1


def test_any_name_of_a_source_leaves_the_trace_readable(tmp_path):
    name = "a\\" + "é" * 40 + ".py"  # a record ends within one of its characters
    namespace = {"torch": torch}
    exec(compile("def f(x):\n    return torch.relu(x) * 3\n", name, "exec"), namespace)
    x = half(64, 64).to("spyre")
    function = torch.compile(namespace["f"])
    function(x)
    with profile(activities=BOTH) as prof:
        function(x)
    kernels = of_category(trace_of(prof, tmp_path), "kernel")
    assert {k["args"]["source"] for k in kernels} == {"a/" + "é" * 30}


def test_copies_and_fills(tmp_path):
    host = half(64, 64)
    with profile(activities=BOTH) as prof:
        x = host.to("spyre")
        zeros = torch.zeros(64, 64, dtype=torch.float16, device="spyre")
        x.clone()
        assert torch.equal(x.cpu(), host)
    assert not zeros.cpu().any()
    events = trace_of(prof, tmp_path)
    names = [e["name"] for e in of_category(events, "gpu_memcpy")]
    assert "Memcpy (HtoD)" in names and "Memcpy (DtoH)" in names
    (fill,) = of_category(events, "gpu_memset")
    assert fill["name"] == "Memset (Device)" and fill["args"]["bytes"] == 8192


def test_device_events_follow_their_submission_and_do_not_overlap(compiled, tmp_path):
    function, x, _counters = compiled
    stream = torch.spyre.Stream()
    with profile(activities=BOTH, with_stack=True) as prof:
        for _ in range(5):
            y = function(x, x)
            with torch.spyre.stream(stream):
                z = half(256, 64).to("spyre") * 2
        torch.spyre.synchronize()
        y.cpu(), z.cpu()
    events = trace_of(prof, tmp_path)
    submissions = {e["args"]["correlation"]: e for e in of_category(events, "privateuse1_runtime")}
    device = [e for category in DEVICE_CATEGORIES for e in of_category(events, category)]
    assert len({e["tid"] for e in device}) == 2  # streams
    for event in device:
        assert event["ts"] >= submissions[event["args"]["correlation"]]["ts"]
        assert event["dur"] > 0
    for category, track in ((None, "tid"), ("kernel", "pid")):
        some = [e for e in device if category in (None, e["cat"])]
        for key in {e[track] for e in some}:
            ordered = sorted((e for e in some if e[track] == key), key=lambda e: e["ts"])
            for a, b in zip(ordered, ordered[1:], strict=False):
                assert a["ts"] + a["dur"] <= b["ts"] + FLOAT_US


def test_host_events_nest(compiled, tmp_path):
    function, x, _counters = compiled
    with profile(activities=BOTH) as prof:
        for _ in range(20):
            function(x, x).cpu()
            x.add(1).cpu()
    events = [e for e in trace_of(prof, tmp_path) if e["ph"] == "X" and e["pid"] == os.getpid()]
    assert {"cpu_op", "user_annotation", "privateuse1_runtime"} <= {e["cat"] for e in events}
    for thread in {e["tid"] for e in events}:
        open_until = []
        here = [e for e in events if e["tid"] == thread and e["cat"] != "python_function"]
        for event in sorted(here, key=lambda e: (e["ts"], -e["dur"])):
            begin, end = event["ts"], event["ts"] + event["dur"]
            while open_until and open_until[-1] <= begin + FLOAT_US:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + FLOAT_US, event
            open_until.append(end)


def test_schedule_ranges_and_shapes(compiled, tmp_path):
    function, x, _counters = compiled
    traces = []
    with profile(
        activities=BOTH,
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda prof: traces.append(trace_of(prof, tmp_path)),
        record_shapes=True,
    ) as prof:
        for step in range(8):
            with record_function(f"iteration_{step}"):
                function(x, x)
                x.mul(2)
            prof.step()
    assert len(traces) == 2
    for trace in traces:
        names = [OF_PROGRAM.sub("", e["name"]) for e in of_category(trace, "kernel")]
        assert names.count(MUL) == 2
    events = prof.events()
    assert {e.name for e in events if e.name.startswith("iteration_")} == {
        "iteration_6",
        "iteration_7",
    }
    shapes = [e.input_shapes for e in events if e.name == "aten::mul"]
    assert shapes == [[[64, 64], []]] * 2


def test_handler_for_tensorboard(compiled, tmp_path):
    function, x, _counters = compiled
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path))
    with profile(activities=BOTH, on_trace_ready=handler):
        function(x, x)
    (file,) = tmp_path.glob("*.pt.trace.json")
    assert of_category(json.loads(file.read_text())["traceEvents"], "kernel")


def test_memory_of_the_card():
    before = torch.ones(1024, dtype=torch.float32, device="spyre")
    with profile(activities=BOTH, profile_memory=True, record_shapes=True, with_stack=True) as prof:
        del before
        x = torch.empty(64, 64, dtype=torch.float16, device="spyre")
        y = x + 1
        del x
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::empty"].self_device_memory_usage == 8192
    assert rows["aten::add"].device_memory_usage == 8192
    timeline = [
        (action, size)
        for _, action, (key, _), size in prof._memory_profile().timeline
        if key.device.type == "spyre"
    ]
    create, destroy = _memory_profiler.Action.CREATE, _memory_profiler.Action.DESTROY
    first = (_memory_profiler.Action.PREEXISTING, 4096), (destroy, 4096)
    assert all(step in timeline for step in (*first, (create, 8192), (destroy, 8192)))
    assert y.shape == (64, 64)


def test_without_kineto_operators_have_virtual_time():
    x = half(512, 512).to("spyre")
    torch.mm(x, x)
    with torch.autograd.profiler.profile(use_device="spyre", use_kineto=False) as prof:
        torch.mm(x, x)
    begin, end = (torch.spyre.Event(enable_timing=True) for _ in range(2))
    begin.record()
    torch.mm(x, x)
    end.record()
    torch.spyre.synchronize()
    (row,) = [row for row in prof.key_averages() if row.key == "aten::mm"]
    us = 1e3 * begin.elapsed_time(end)
    assert us > 2
    assert row.device_time_total == int(us)  # PyTorch keeps whole microseconds


def test_results_are_the_same_under_a_profiler(compiled):
    function, x, _counters = compiled
    expected = function(x, x).cpu()
    with profile(activities=BOTH, profile_memory=True):
        result = function(x, x).cpu()
    assert torch.equal(result, expected)


def test_scratchpad_is_what_the_planner_left():
    x = half(512, 1024).to("spyre")
    compiled = torch.compile(lambda x: torch.softmax(x, 0))
    compiled(x)
    report = torch_spyre.last_report()
    (use,) = report.scratchpad()
    listing = report.program().executable.text(0, "lx")
    buffers = [tuple(map(int, b)) for b in LX_BUFFER.findall(listing)]
    limit, ops = map(int, LX_HEAD.match(listing).groups())
    assert (use["ops"], use["buffers"], use["limit_bytes"]) == (ops, len(buffers), limit)
    used = []
    for op in range(ops):
        live = [b for b in buffers if b[2] <= op <= b[3]]
        sticks = {s for b in live for s in range(b[0] // 128, (b[0] + b[1]) // 128)}
        used.append(128 * len(sticks))
    assert use["peak_bytes"] == max(used) > 0
    assert use["average_bytes"] == pytest.approx(sum(used) / ops)
    assert use["reuse"] == pytest.approx(sum(b[1] for b in buffers) / max(used))
    assert 0 <= use["fragmentation"] < 1
