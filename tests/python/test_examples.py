# SPDX-License-Identifier: Apache-2.0
"""The scripts of examples/ run as they stand, and docs/backends.md shows what they print."""

import json
import pathlib
import re
import runpy
import subprocess
import sys

import pytest
import torch
import torch_spyre
from torch_spyre import registry

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "backends.md").read_text()
COMPARED = ("tensor_allocate", "softmax", "gelu", "mean", "mul", "softplus", "spyre_hints")


@pytest.fixture
def example(monkeypatch, capfd):
    """example(name) -> (what the script prints, its names)."""
    torch._dynamo.reset()
    before = dict(registry.fallback_ops)
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def run(name):
        names = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capfd.readouterr().out, names

    yield run
    assert registry.fallback_ops == before
    for module in ("my_accel", "pipeline_runtime"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", COMPARED)
def test_comparisons_with_the_cpu(example, name):
    text, _names = example(name)
    deltas = [float(delta) for delta in re.findall(r"max delta: (\S+)", text)]
    assert deltas and max(deltas) <= 0.1


def test_compile_basics(example):
    text, _names = example("compile_basics")
    assert "torch.Size([128, 128])" in text and "torch.Size([32, 64])" in text
    assert "nodes: placeholder, placeholder, " + "call_function, " * 3 + "output" in text
    assert "torch.softmax(y, dim = -1)" in text


def test_profile_of_granite(example, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    options = ["--layers", "1", "--tokens", "16", "--logs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["profile_granite.py", *options])
    text, names = example("profile_granite")
    assert float(re.search(r"max delta: (\S+)", text)[1]) <= 0.05
    rows = dict(re.findall(r"^(\w[\w() ]*?) +\d+ +(\d+\.\d+) +\d+\.\d%$", text, re.MULTILINE))
    # What takes less than a nanosecond may come out as none.
    assert all(float(rows[name]) > 0 for name in ("batchmatmul", "Memcpy (DtoH)", "exp"))
    busy = float(re.search(r"^card +(\d+\.\d+) ms", text, re.MULTILINE)[1])
    assert busy == pytest.approx(sum(map(float, rows.values())) / 1e3, abs=2e-3)
    (trace,) = tmp_path.glob("*.pt.trace.json")
    events = json.loads(trace.read_text())["traceEvents"]
    iterations = {e["name"] for e in events if e["name"].startswith("iteration_")}
    assert iterations == {"iteration_1", "iteration_2", "iteration_3"}


def test_the_log_shows_the_code(run_python):
    source = "import torch\ntorch.compile(lambda x: x + 1)(torch.ones(2).half().to('spyre'))"
    assert "async_compile.sdsc(" in run_python(source, TORCH_LOGS="output_code").stderr


def test_the_kinds_of_nodes(example):
    text, _names = example("explore_fx_graph")
    kinds = [line.split()[0] for line in text.splitlines()[:4]]
    assert kinds == ["placeholder", "call_module", "call_function", "output"]


def test_a_backend_of_its_own(example):
    text, names = example("my_accel")
    assert text in PAGE
    assert names["invocations"] == 1


def test_methods_and_what_the_registry_lacks(example, capfd):
    _text, names = example("my_accel")

    def function(x, y):
        return torch.sin(x.relu() @ y).softmax(-1) + 1

    x, y = torch.randn(3, 5).half(), torch.randn(5, 7).half()
    result = torch.compile(function, backend=names["my_accel_backend"])(x, y)
    torch.testing.assert_close(result, function(x, y), rtol=1e-2, atol=1e-2)
    text = capfd.readouterr().out
    assert "Found op: sin - falls back to PyTorch" in text
    assert re.findall(r"\[(MY_ACCEL|PYTORCH)\] (\w+)", text) == [
        ("MY_ACCEL", "relu"), ("MY_ACCEL", "matmul"), ("PYTORCH", "sin"),
        ("MY_ACCEL", "softmax"), ("PYTORCH", "add"),
    ]  # fmt: skip


def test_the_pipeline(example):
    text, _names = example("pipeline")
    assert re.sub(r"bytes: \d+", "bytes: <n>", text) in PAGE


def test_the_pipeline_parts_a_graph(example, capfd):
    _text, names = example("pipeline")

    def function(x):
        return torch.relu(torch.sin(torch.relu(x)))

    x = torch.randn(3, 5).half()
    result = torch.compile(function, backend=names["pipeline_backend"])(x)
    torch.testing.assert_close(result, function(x), rtol=1e-2, atol=1e-2)
    text = capfd.readouterr().out
    assert "Partitioned into 3 segment(s)" in text
    assert "Segment 1: fallback (1 ops)" in text and "fallback sin: NumPy" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b[:10], "a program is longer"),
        (lambda b: b"X" + b[1:], "no program of the pipeline"),
        (lambda b: b[:8] + b"\x02" + b[9:], "version 2, this runtime reads 1"),
        (lambda b: b[:-1] + bytes([b[-1] ^ 1]), "the checksum is wrong"),
    ],
)
def test_bytes_that_are_no_program(change, message):
    names = runpy.run_path(str(EXAMPLES / "pipeline_runtime.py"))
    blob = names["pack"]([{"op": "input", "name": "x"}], {"w": b"1234"})
    assert names["unpack"](blob) == ([{"op": "input", "name": "x"}], {"w": b"1234"})
    with pytest.raises(ValueError, match=message):
        names["unpack"](change(blob))


def test_kernels_of_another_kind_are_refused():
    names = runpy.run_path(str(EXAMPLES / "kernel_lib.py"))
    with pytest.raises(names["SpyreError"], match="checksum is wrong"):
        names["Kernel"](names["build"]("relu", [(2, 3)])[:-1], (2, 3))


OPERATORS = [
    (torch.ops.aten.relu.default, (8, 64), ()),
    (torch.ops.aten.mm.default, (64, 64), (64, 64)),
    (torch.ops.aten.add.Tensor, (8, 64), (8, 64)),
    (torch.ops.aten.amax.default, (8, 64), ()),
]


@pytest.mark.parametrize(("op", "left", "right"), OPERATORS)
def test_any_operator_falls_back_to_its_original_kernel(op, left, right):
    tensors = [torch.randint(-4, 5, shape).half() for shape in (left, right) if shape]
    registry.register_fallback(op)(None)
    try:
        torch._dynamo.reset()
        compiled = torch.compile(lambda *values: op(*values), dynamic=False)
        result = compiled(*(t.to("spyre") for t in tensors))
        assert torch.equal(result.cpu(), op(*tensors))
        report = torch_spyre.last_report()
        assert report.nodes_on_host == 1 and report.nodes_on_card == 0
    finally:
        registry.fallback_ops.pop(op)
        torch_spyre._C.forget_operators()


def test_what_the_device_touches_of_pytorch():
    done = subprocess.run(
        [sys.executable, "-m", "torch_spyre.debug.trace_init"],
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    registering, compiling = done.stdout.split("# the first call")
    assert "torch_spyre/registration.py" in registering
    assert "torch/utils/backend_registration.py rename_privateuse1_backend()" in registering
    assert "generate_methods_for_privateuse1_backend()" in registering
    assert "torch._dynamo" not in registering
    assert "torch/_dynamo/backends/common.py aot_autograd()" in compiling


def on_cards(count, name):
    """What an example prints under torchrun."""
    launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={count}", "--standalone"]
    done = subprocess.run(
        [sys.executable, *launcher, str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


MANY = [2, pytest.param(4, marks=pytest.mark.long), pytest.param(8, marks=pytest.mark.long)]


@pytest.mark.parametrize("count", MANY)
def test_training_on_several_cards(count):
    text = on_cards(count, "distributed_training")
    losses = [float(loss) for loss in re.findall(r"step \d: loss (\S+)", text)]
    assert len(losses) == 4 and losses == sorted(losses, reverse=True)


@pytest.mark.long  # test_sharding.py has two cards
@pytest.mark.parametrize("count", [2, 4, 8])
def test_sharded_training_on_several_cards(count):
    text = on_cards(count, "sharded_training")
    losses = re.findall(rf"loss (\S+) on one card, (\S+) on {count}", text)
    assert len(losses) == 4
    for one, several in losses:
        assert float(several) == pytest.approx(float(one), rel=2e-3)
    here, whole = map(int, re.search(r"here: (\d+) of (\d+)", text).groups())
    assert here * count == whole


@pytest.mark.parametrize("count", MANY)
def test_generation_on_several_cards(count):
    text = on_cards(count, "tensor_parallel_generation")
    one, several = (re.findall(r"\d+", line.split(":")[1]) for line in text.splitlines()[:2])
    assert one == several and len(one) == 12
    assert "the same tokens: True" in text
