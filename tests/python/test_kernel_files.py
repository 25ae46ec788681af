# SPDX-License-Identifier: Apache-2.0
"""A directory a kernel: five stages, stable bytes, a bundle that the back-end compiles alone."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch_spyre.debug import kernel_files

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = (
    "import torch\n"
    "def f(x, y): return torch.softmax(x @ y, -1) + x\n"
    "x = torch.ones(64, 64).half().to('spyre')\n"
    "torch.compile(f, dynamic=False)(x, x)\n"
)


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """Two caches, each filled by a process of its own."""
    folders = [tmp_path_factory.mktemp("cache") for _ in range(2)]
    for folder in folders:
        environment = {
            **os.environ,
            "SPYRE_KERNEL_FILES": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(folder),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return folders


def files_below(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_five_stages_of_a_kernel(caches):
    (kernel,) = (caches[0] / "inductor-spyre").iterdir()
    assert kernel.name.startswith("sdsc_fused_") and len(kernel.name.rsplit("_", 1)[1]) == 8
    about = json.loads((kernel / "kernel.json").read_text())
    assert kernel.name.startswith(about["name"]) and about["card_us"] > 0
    assert about["files"] == sorted(set(files_below(kernel)) - {"kernel.json"})
    steps = len(json.loads((kernel / "opspec.json").read_text())["specs"])
    assert {f"sdsc_{n}.json" for n in range(steps)} | {
        "opspec.json", "bundle.mlir", "program.lst",
        "spyreCodeDir/init.bin", "spyreCodeDir/spyrecode.json",
    } == set(about["files"])  # fmt: skip
    assert "batchmatmul" in (kernel / "program.lst").read_text()


def test_ideal_cycles_of_every_step(caches):
    (kernel,) = (caches[0] / "inductor-spyre").iterdir()
    about = json.loads((kernel / "kernel.json").read_text())
    assert len(about["counters"]) == about["kernels"]
    assert sum(step["macs"] for step in about["counters"]) == about["macs"] == 64**3
    files = caches[0] / "perf/inductor-spyre"
    assert len(list(files.iterdir())) == about["kernels"]
    for step in about["counters"]:
        path = files / f"{about['name']}#{step['name']}" / "perf/ideal_cycles.json"
        (entry,) = json.loads(path.read_text())
        assert step["name"].endswith(entry["op_category"])
        assert (entry["ideal_cycles"] > 0) == (step["macs"] > 0)


def test_every_process_writes_the_same_bytes(caches):
    first, second = (files_below(folder / "inductor-spyre") for folder in caches)
    assert first == second and first


def test_the_back_end_makes_the_same_program(caches, tmp_path):
    (kernel,) = (caches[0] / "inductor-spyre").iterdir()
    spyre = pathlib.Path(os.environ.get("SPYRE_CLI", ROOT / "build" / "release" / "spyre"))
    dxp = spyre.with_name("dxp_standalone")
    subprocess.run([dxp, "--bundle", "-d", kernel, "-o", tmp_path / "code"], check=True)

    def listing(code):
        """Without what a bundle does not have: source lines, bytes of arguments."""
        done = subprocess.run([spyre, "inspect", code / "init.bin"], capture_output=True, text=True)
        lines = [re.sub(r" us\b.*", "", line) for line in done.stdout.splitlines()[1:]]
        return [line for line in lines if not line.startswith(("argument ", "kernel "))]

    assert len(listing(tmp_path / "code")) > 20
    assert listing(tmp_path / "code") == listing(kernel / "spyreCodeDir")


def test_a_kernel_has_one_name(monkeypatch, tmp_path):
    """In launches, device events, its directory and the generated code; a step's own name
    ("sumnonstick") is part of it."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SPYRE_KERNEL_FILES", "1")
    torch._dynamo.reset()
    function = torch.compile(lambda x: x.sum(0), dynamic=False)
    x = torch.ones(130, 200).half().to("spyre")
    _, (code,) = run_and_get_code(function, x)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.profiler.profile(activities=activities) as profile:
        function(x)
    (kernel,) = kernel_files.root().iterdir()
    name = json.loads((kernel / "kernel.json").read_text())["name"]
    assert name == kernel.name.rpartition("_")[0]
    assert re.fullmatch("sdsc_fused_sumnonstick_0_[0-9a-f]{8}", name)
    keys = {event.key for event in profile.key_averages()}
    assert {f"launch_kernel:{name}", f"{name}#0_sumnonstick"} <= keys
    assert f"{name} = async_compile.sdsc(" in code


def test_programs_of_other_sizes_have_other_names(monkeypatch, tmp_path):
    """Ideal cycles are by name: those of a program and of one for another size stand side by side,
    also where a program serves all sizes. Where the source says so is of no consequence."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SPYRE_KERNEL_FILES", "1")
    weight = torch.ones(64, 256).half().to("spyre")
    for function in (lambda x: x @ weight, lambda x: x @ weight):
        torch._dynamo.reset()
        compiled = torch.compile(function)
        for rows in (64, 128, 256):
            x = torch.ones(rows, 64).half().to("spyre")
            torch._dynamo.mark_dynamic(x, 0, min=64, max=512)
            compiled(x)
    folders = (tmp_path / "perf/inductor-spyre").glob("*batchmatmul*")
    entries = [json.loads((f / "perf/ideal_cycles.json").read_text())[0] for f in folders]
    assert len(entries) == len({entry["ideal_cycles"] for entry in entries}) == 5


def test_compiling_is_a_range_of_the_profiler(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    x = torch.ones(3, 7).half().to("spyre")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.compile(lambda v: v.exp() * 3, dynamic=False)(x)
    assert "dxp_standalone:sdsc_fused_exp_mul" in {e.key for e in profile.key_averages()}
    assert not kernel_files.root().exists()  # nobody asked


def test_exports_are_kept_where_torch_spyre_keeps_them(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCH_COMPILE_DEBUG", raising=False)
    monkeypatch.setenv("DEEPRT_EXPORT_DIR", str(tmp_path / "runtime"))
    assert not kernel_files.wanted()
    assert tmp_path not in kernel_files.root().parents
    monkeypatch.setenv("DTCOMPILER_KEEP_EXPORT", "true")
    assert kernel_files.wanted()
    assert kernel_files.root() == tmp_path / "runtime" / "inductor-spyre"
    monkeypatch.setenv("DTCOMPILER_EXPORT_DIR", str(tmp_path / "compiler"))
    assert kernel_files.root() == tmp_path / "compiler" / "inductor-spyre"
