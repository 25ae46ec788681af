# SPDX-License-Identifier: Apache-2.0
"""TORCH_COMPILE_DEBUG=1: the files of a graph, and that the runnable ones run."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch
from host_ops import UNKNOWN

PROGRAM = f"""
import torch

def f(x, y):
    a = torch.sin(x) ** 2 + torch.cos(x) ** 2
    return torch.softmax(a @ y.t(), -1) + torch.ops.{UNKNOWN}(x * 0.1, x)

x, y = (torch.rand(3, 80, 80, dtype=torch.float16).to("spyre")[0] for _ in range(2))
print(torch.compile(f, dynamic=False)(x, y).sum().item())
"""


def run(folder, *command, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("artefacts")
    program = folder / "user_model.py"
    program.write_text(PROGRAM)
    run(
        folder,
        program,
        TORCH_COMPILE_DEBUG="1",
        INDUCTOR_ORIG_FX_SVG="1",
        TORCH_TRACE=str(folder / "trace"),
    )
    (graph,) = folder.glob("torch_compile_debug/run_*/torchinductor/model__*")
    return graph


def test_the_eight_files_are_there(artefacts):
    files = [
        "fx_graph_readable.py",
        "fx_graph_runnable.py",
        "fx_graph_transformed.py",
        "ir_pre_fusion.txt",
        "ir_post_fusion.txt",
        "output_code.py",
    ]
    assert all((artefacts / name).stat().st_size for name in files)
    assert " = exp(b" in (artefacts / "expressions.txt").read_text()
    assert " us roofline, of " in (artefacts / "why.txt").read_text()
    if shutil.which("dot"):
        for name in ("orig_fx_graph_diagram.svg", "graph_diagram.svg"):
            assert "</svg>" in (artefacts / name).read_text()
    assert artefacts.name == "model__0_inference_0.0"


def test_the_log_of_aotautograd_has_the_graph(artefacts):
    log = (artefacts.parent / "aot_model___0_debug.log").read_text()
    assert f"{artefacts.name}, artefacts in" in log and f"{UNKNOWN}.default" in log


def test_every_card_segment_has_its_bundle_and_listing(artefacts):
    bundles = sorted(artefacts.glob("segment*_bundle"))
    assert bundles
    for bundle in bundles:
        assert (bundle / "bundle.mlir").is_file()
        assert json.loads((bundle / "sdsc_0.json").read_text())
        name = bundle.name.removesuffix("_bundle")
        assert (artefacts / "stages" / f"{name}.listing").stat().st_size


def test_the_loop_ir_is_there_after_every_pass(artefacts):
    names = [path.stem.split("_", 2)[2] for path in sorted(artefacts.glob("passes/segment*.loop"))]
    assert names.count("build") == names.count("work_distribution") > 0
    assert "// softmax" not in (artefacts / "ir_pre_fusion.txt").read_text()
    assert "_softmax" in (artefacts / "ir_post_fusion.txt").read_text()


def test_runnable_files_run_anywhere(artefacts, tmp_path):
    for name in ("output_code.py", "fx_graph_runnable.py"):
        shutil.copy(artefacts / name, tmp_path)
        assert "tensor(" in run(tmp_path, name)


def test_the_way_from_node_to_kernel_and_back(artefacts):
    mappings = json.loads(
        (artefacts / "inductor_provenance_tracking_node_mappings.json").read_text()
    )
    kernels = mappings["postToCppCode"]["_softmax"]
    assert len(kernels) >= 3
    for kernel in kernels:
        assert mappings["cppCodeToPost"][kernel] == ["_softmax"]
        assert mappings["locations"][kernel] == "user_model.py:6 in f"


def test_the_logs_of_pytorch_are_beside_it(artefacts):
    assert (artefacts.parent.parent / "torchdynamo" / "debug.log").is_file()
    assert (artefacts.parent / "aot_model___0_debug.log").is_file()


def test_kernels_name_their_files(artefacts):
    mappings = json.loads(
        (artefacts / "inductor_provenance_tracking_node_mappings.json").read_text()
    )
    code = (artefacts / "output_code.py").read_text()
    for kernel, (file,) in mappings["files"].items():
        _segment, name = kernel.split("_", 1)
        assert list(json.loads((artefacts / file).read_text())) == [name]
        assert f"# {kernel}\n" in code


TILED = """
import torch
from torch_spyre._inductor import spyre_hint
from torch_spyre._inductor.wsr.propagate_named_dims import declare_tensor_dim, name_tensor_dims

def f(x):
    with spyre_hint(num_tiles_per_dim={"M": 4}):
        y = torch.relu(x).exp()
    return y.neg()

x = torch.rand(64, 128, dtype=torch.float16).to("spyre")
declare_tensor_dim("M", 64)
declare_tensor_dim("K", 128)
name_tensor_dims(x, ["M", "K"])
torch.compile(f)(x)
"""


@pytest.mark.parametrize("unroll", ["1", "0"])
def test_the_way_from_kernel_to_instructions(tmp_path, unroll):
    """Unrolled loops have a step an iteration, so steps count otherwise than ops."""
    program = tmp_path / "user_model.py"
    program.write_text(TILED)
    run(tmp_path, program, TORCH_COMPILE_DEBUG="1", UNROLL_LOOPS=unroll)
    (graph,) = tmp_path.glob("torch_compile_debug/run_*/torchinductor/model__*")
    (file,) = graph.glob("inductor_provenance*.json")
    mappings = json.loads(file.read_text())
    in_loop = 4 if unroll == "1" else 1
    for node, count in (("relu", in_loop), ("exp", in_loop), ("neg", 1)):
        (kernel,) = mappings["postToCppCode"][node]
        opfunc = kernel.split("_")[2]
        assert len(mappings["files"][kernel]) == len(mappings["programs"][kernel]) == count
        for name in mappings["files"][kernel]:
            assert [key.split("_")[1] for key in json.loads((graph / name).read_text())] == [opfunc]
        for place in mappings["programs"][kernel]:
            name, first, last = re.fullmatch(r"(.*):(\d+)-(\d+)", place).groups()
            lines = (graph / name).read_text().splitlines()[int(first) - 1 : int(last)]
            assert lines[0].lstrip().startswith("kernel ") and lines[-1].lstrip() == "endkernel"
            assert any(f" {opfunc} " in line for line in lines)


def test_the_structured_log_is_what_tlparse_reads(artefacts):
    (log,) = (artefacts.parents[3] / "trace").glob("*.log")
    records = [
        json.loads(line.split("] ", 1)[1])
        for line in log.read_text().splitlines()
        if re.match(r"V\d{4} .*\] \{", line)
    ]
    named = {r["artifact"]["name"]: r for r in records if "artifact" in r}
    wanted = [
        "before_pre_grad_graph",
        "inductor_post_grad_graph",
        "inductor_provenance_tracking_node_mappings",
        "inductor_provenance_tracking_kernel_stack_traces",
    ]
    assert {named[name]["frame_id"] for name in wanted} == {0}
    assert any("inductor_output_code" in r for r in records)
    (payload,) = re.findall(r'^\t(\{.*"version": 2.0\})$', log.read_text(), re.M)
    mappings = json.loads(payload)
    assert mappings["preToPost"]["softmax"] == ["_softmax"]
    if tlparse := shutil.which("tlparse"):
        command = [tlparse, log, "--inductor-provenance", "--no-browser", "-o", log.parent / "out"]
        subprocess.run(command, check=True, capture_output=True)
        assert list((log.parent / "out").glob("provenance_tracking_-_0_0_0.html"))


def test_caches_can_be_left_out(run_python, tmp_path):
    source = (
        "import torch, torch_spyre\n"
        "torch.compile(lambda x: x * 3)(torch.ones(5).half().to('spyre'))\n"
        "print(torch_spyre.compile_statistics()['stores'])\n"
    )
    for disable, stores in (("1", "0"), ("0", "1")):
        folder = tmp_path / disable
        environment = {
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": disable,
            "SPYRE_CACHE_DIR": str(folder),
        }
        assert run_python(source, **environment).stdout.strip() == stores
        assert folder.exists() == (disable == "0")


def test_attention_is_one_named_node(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(torch._dynamo.utils, "get_debug_dir", lambda: str(tmp_path))
    torch._dynamo.reset()
    q = torch.randn(1, 2, 8, 64).half().to("spyre")
    with torch.no_grad():
        torch.compile(torch.nn.functional.scaled_dot_product_attention, dynamic=False)(q, q, q)
    (graph,) = tmp_path.glob("torchinductor/model__*/fx_graph_transformed.py")
    (node,) = re.findall(r"= torch.ops.(\S*attention\S*)\(", graph.read_text())
    assert node == "aten.scaled_dot_product_attention.default"


def test_nothing_is_written_unasked(tmp_path):
    program = tmp_path / "quiet.py"
    program.write_text(PROGRAM)
    run(tmp_path, program)
    assert [path.name for path in tmp_path.iterdir()] == ["quiet.py"]
