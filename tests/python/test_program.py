# SPDX-License-Identifier: Apache-2.0
"""SpyreCode directories and constants through `torch_spyre._C`."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_spyre
from torch_spyre import _C
from torch_spyre._C import DataFormats
from torch_spyre.compile import call_compiler, node_arguments


def compiled_sum(x, y):
    """The program of x + y."""
    graph = _C.Graph()
    values = [graph.add_input(name, t) for name, t in (("x", x), ("y", y))]
    _node, results = graph.add_node(
        "add",
        "aten.add.Tensor",
        [(values[0],), (values[1],), 1],
        [node_arguments.result_type(x, True)],
        "test_program.py:1 in compiled_sum",
    )
    graph.add_output(results[0])
    assert "aten.add.Tensor" in str(graph)
    return call_compiler.compile_graph(graph, host_fallback=False)


@pytest.fixture
def adder(tmp_path):
    """A directory with the program of x + y, and its operands."""
    x, y = (torch.randint(-9, 9, (3, 70)).half().to("spyre") for _ in range(2))
    executable = compiled_sum(x, y)
    executable.write(0, "spyrecode", str(tmp_path))
    assert executable.text(0, "listing")
    return str(tmp_path), x, y


def test_a_directory_runs(adder):
    directory, x, y = adder
    out = torch.zeros(3, 70, dtype=torch.float16, device="spyre")
    _C.launch_kernel(directory, [x, y, out])
    assert out.cpu().equal(x.cpu() + y.cpu())
    plan = _C.prepare_kernel(directory)
    assert plan.argument_count() == 3
    _C.launch_jobplan(plan, [out, y, x])
    assert x.cpu().equal(out.cpu() + y.cpu())


def test_plans_have_names_and_take_symbolic_arguments(adder):
    directory, x, y = adder
    out = torch.zeros(3, 70, dtype=torch.float16, device="spyre")
    plan = _C.prepare_kernel(directory, profiler_name="spyre_kernel_v1_add_abcdefgh234567ab")
    (step,) = (n for n in range(plan.num_steps()) if plan.get_step_type(n) == "Compute")
    assert plan.get_step_name(step) == f"spyre_kernel_v1_add_abcdefgh234567ab#{step}"
    folder = "/".join(directory.split("/")[-2:])
    assert _C.prepare_kernel(directory).get_step_name(step) == f"{folder}/bundle.mlir#{step}"
    with pytest.raises(RuntimeError, match="Step index out of range"):
        plan.get_step_name(plan.num_steps())
    with pytest.raises(RuntimeError, match="exceeds AIUPTI limit: 128 .* at most 127"):
        _C.prepare_kernel(directory, profiler_name="x" * 126)
    addresses = [_C.SymbolicArg(_C.SymbolicArgKind.kAddress, n) for n in (2, 0, 1)]
    with torch.profiler.profile() as prof:
        _C.launch_jobplan(plan, [y, out, x], addresses)
    assert out.cpu().equal(x.cpu() + y.cpu())
    assert any(plan.get_step_name(step) in event.key for event in prof.key_averages())
    with pytest.raises(RuntimeError, match="tensor_id=2 out of range"):
        _C.launch_jobplan(plan, [y, out], symbolic_args=addresses)


def test_views_that_begin_inside_of_a_storage_are_refused(adder):
    directory, x, y = adder
    out = torch.zeros(6, 70, dtype=torch.float16, device="spyre")
    with pytest.raises(ValueError, match="view that begins 210 elements behind the start"):
        _C.launch_kernel(directory, [x, y, out[3:]])


@pytest.fixture
def from_views():
    _C._launch_from_views(True)
    yield
    _C._launch_from_views(False)


def sums_of(directory, shape):
    """Writes the program of x + y of that shape."""
    operands = [torch.zeros(shape, dtype=torch.float16, device="spyre") for _ in range(2)]
    compiled_sum(*operands).write(0, "spyrecode", str(directory))
    return str(directory)


def numbers(*shape):
    return torch.randint(-9, 9, shape).half()


def test_views_are_taken_from_where_they_begin(tmp_path, from_views):
    """Rows, columns of sticks, columns of a permuted tensor: read, written, and beside them nothing
    else is."""
    directory = sums_of(tmp_path, (4, 64))
    whole = [numbers(12, 64) for _ in range(3)]
    for first in (0, 3, 8):
        x, y, out = (t.to("spyre") for t in whole)
        _C.launch_kernel(directory, [x[first : first + 4], y[:4], out[2:6]])
        wanted = whole[2].clone()
        wanted[2:6] = whole[0][first : first + 4] + whole[1][:4]
        assert out.cpu().equal(wanted)
    wide = numbers(4, 192)
    x, out = wide.to("spyre"), torch.zeros(4, 64).half().to("spyre")
    _C.launch_kernel(directory, [x[:, 128:], x[:, 64:128], out])
    assert out.cpu().equal(wide[:, 128:] + wide[:, 64:128])
    with pytest.raises((ValueError, RuntimeError), match="which is element 36 of a stick"):
        _C.launch_kernel(directory, [x[:, 100:164], x[:, :64], out])
    with pytest.raises((ValueError, RuntimeError), match="goes on behind the end of a dim"):
        flat = x.view(-1)[128 : 128 + 256].view(4, 64)
        _C.launch_kernel(directory, [flat, x[:, :64], out])


def test_what_a_program_touches_behind_a_view_is_not_the_next_tensor(tmp_path, from_views):
    """The program is of six rows; the views have four behind them, the others are a copy's."""
    directory = sums_of(tmp_path, (6, 64))
    whole, other = numbers(6, 64), numbers(6, 64)
    x, y, out = whole.to("spyre"), other.to("spyre"), torch.zeros(6, 64).half().to("spyre")
    _C.launch_kernel(directory, [x[2:], y, out])
    assert out.cpu()[:4].equal(whole[2:] + other[:4]) and out.cpu()[4:].equal(other[4:])
    _C.launch_kernel(directory, [y, y, x[2:]])
    assert x.cpu()[:2].equal(whole[:2]) and x.cpu()[2:].equal(2 * other[:4])
    with pytest.raises((ValueError, RuntimeError), match="argument 1 is in its memory, too"):
        _C.launch_kernel(directory, [x[2:], x, out])


def test_what_lies_beside_a_written_view_stays(tmp_path, from_views):
    """Programs write whole sticks: of rows of 64 that end in the middle of one, in place too, of
    columns behind one, with a second argument in the same storage, and of rows of padding."""
    directory = sums_of(tmp_path, (4, 32))
    whole, other = numbers(4, 160), numbers(4, 32)
    y = other.to("spyre")
    for first, size in ((0, 4), (64, 4), (128, 3)):
        x = whole.to("spyre")
        part, wanted = x[:size, first : first + 32], whole.clone()
        _C.launch_kernel(directory, [part, y, part])
        wanted[:size, first : first + 32] += other[:size]
        assert x.cpu().equal(wanted), (first, size)
    x, wanted = whole.to("spyre"), whole.clone()
    _C.launch_kernel(directory, [x[:, 64:96], y, x[:, :32]])
    wanted[:, :32] = whole[:, 64:96] + other
    assert x.cpu().equal(wanted)
    with pytest.raises((ValueError, RuntimeError), match="argument 2 .* written .* another dtype"):
        _C.launch_kernel(directory, [y, y, x.view(torch.bfloat16)[:, :32]])


@pytest.mark.parametrize("published", (False, True))
def test_published_bundles_say_nothing_of_live_lanes(tmp_path, published):
    operands = [torch.zeros(4, 20, dtype=torch.float16, device="spyre") for _ in range(2)]
    with torch_spyre.config.patch(published_opfuncs=published):
        compiled_sum(*operands).write(0, "bundle", str(tmp_path))
    (step,) = tmp_path.glob("sdsc_*.json")
    assert ('"liveLanes_"' in step.read_text()) is not published


def test_the_steps_of_a_plan(adder):
    plan = _C.prepare_kernel(adder[0])
    steps = [plan.get_step_type(index) for index in range(plan.num_steps())]
    assert steps == ["HostCompute", "H2D", "Compute"]
    assert isinstance(plan, _C.JobPlan)
    written = json.loads(Path(adder[0], "spyrecode.json").read_text())
    allocated = written["JobPreparationPlan"][0]["properties"]["size"]
    assert plan.job_allocation_size() == int(allocated)
    for index in (3, -1, 10**6):
        with pytest.raises(RuntimeError, match="Step index out of range"):
            plan.get_step_type(index)


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="SpyreCode directory does not exist"):
        _C.prepare_kernel(str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="spyrecode.json not found"):
        _C.prepare_kernel(str(tmp_path))


def test_what_cannot_run_is_refused(adder, tmp_path_factory):
    directory, x, y = adder
    with pytest.raises(ValueError, match="takes 3 tensors, 2 were given"):
        _C.launch_kernel(directory, [x, y])
    with pytest.raises(ValueError, match="argument 2 of a launch is not on the card"):
        _C.launch_kernel(directory, [x, y, torch.zeros(3, 70)])
    with pytest.raises(ValueError, match="launch argument 2 has 4608 bytes"):
        _C.launch_kernel(directory, [x, y, torch.zeros(9, 99, device="spyre")])
    with pytest.raises((RuntimeError, ValueError)):
        _C.prepare_kernel(str(tmp_path_factory.mktemp("empty")))


@pytest.fixture(params=["written", "compiled from the bundle"])
def sum_of_matrices(request, tmp_path):
    """SpyreCode of x + y of 512 x 256, by either way to it."""
    executable = compiled_sum(*(torch.rand(512, 256).half().to("spyre") for _ in range(2)))
    if request.param == "written":
        executable.write(0, "spyrecode", str(tmp_path))
        return str(tmp_path)
    executable.write(0, "bundle", str(tmp_path))
    command = Path(sys.executable).with_name("dxp_standalone")
    subprocess.run([command, "--bundle", "-d", str(tmp_path)], check=True, timeout=60)
    return str(tmp_path / "spyreCodeDir")


def test_init_text_is_launched(tmp_path):
    """What torch-spyre loads without SpyreCode: one file of lines of 256 digits."""
    x, y = (torch.rand(512, 256).half().to("spyre") for _ in range(2))
    compiled_sum(x, y).write(0, "bundle", str(tmp_path))
    command = Path(sys.executable).with_name("dxp_standalone")
    given = [command, "--bundle", "-d", tmp_path, "--init-txt"]
    subprocess.run(given, check=True, timeout=60)
    shutil.rmtree(tmp_path / "spyreCodeDir")
    (text,) = tmp_path.glob(f"loadprogram_to_device/{tmp_path.name}-SenProgSend/init.txt")
    lines = [line for line in text.read_text().splitlines() if not line.startswith("#")]
    assert lines and {len(line) for line in lines} == {256}
    assert bytes.fromhex(lines[0])[::-1].startswith(b"SPYRECOD")
    out = torch.zeros_like(x)
    _C.launch_kernel(str(tmp_path), [x, y, out])
    assert torch.equal(out.cpu(), (x + y).cpu())
    text.write_text(text.read_text()[:-9])
    with pytest.raises(RuntimeError, match=r"init.txt:\d+: 248 characters"):
        _C.prepare_kernel(str(tmp_path))


def test_launches_are_checked(sum_of_matrices):
    plan = _C.prepare_kernel(sum_of_matrices)

    def tensor(*sizes, dtype=torch.float16):
        return torch.ones(*sizes, dtype=dtype, device="spyre")

    result = tensor(512, 256)
    _C.launch_jobplan(plan, [tensor(512, 256), tensor(512, 256), result])
    assert result.cpu().eq(2).all()
    wrong = [
        (tensor(1024, 256), "launch argument 1|argument 1 of a launch"),  # larger
        (tensor(256, 256), "argument 1"),  # smaller
        (tensor(256, 512), "argument 1.*was compiled for"),  # of as many bytes
        (tensor(128, 1024), "argument 1.*was compiled for"),
        (tensor(512, 256, dtype=torch.float32), "argument 1"),
        (tensor(256, 256, dtype=torch.float32), "argument 1.*IEEE_FP32.*SEN169_FP16"),
        (tensor(256, 256, dtype=torch.int64), "argument 1"),
        (torch.ones(512, 256).half(), "argument 1 of a launch is not on the card"),
    ]
    for other, message in wrong:
        kept = tensor(512, 256)
        with pytest.raises(ValueError, match=message):
            _C.launch_jobplan(plan, [tensor(512, 256), other, kept])
        assert kept.cpu().eq(1).all()
    for count in (0, 2):  # more may be given
        with pytest.raises(ValueError, match=f"takes 3 tensors, {count} were given"):
            _C.launch_jobplan(plan, [result] * count)
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        _C.launch_jobplan(plan, [result, result, None])


def test_the_table_of_a_gather_may_be_known_at_launch(tmp_path):
    """As in torch-spyre's bundles: nothing says how many rows the table has."""
    table, rows = torch.rand(200, 192).half(), torch.tensor([3, 199, 0, 7], dtype=torch.int32)
    on_card = [t.to("spyre") for t in (table, rows)]
    graph = _C.Graph()
    values = [graph.add_input(name, t) for name, t in zip("xi", on_card, strict=True)]
    made = node_arguments.result_type(torch.empty(4, 192, dtype=torch.float16, device="meta"), True)
    arguments = [(values[0],), 0, (values[1],)]
    _node, results = graph.add_node("g", "aten.index_select.default", arguments, [made], None)
    graph.add_output(results[0])
    call_compiler.compile_graph(graph, host_fallback=False).write(0, "bundle", str(tmp_path))
    text = (tmp_path / "sdsc_0.json").read_text()
    stated, count = re.subn(r'"indexedDimSize_": *200,?', "", text)
    assert count == 1
    (tmp_path / "sdsc_0.json").write_text(stated)
    command = Path(sys.executable).with_name("dxp_standalone")
    subprocess.run([command, "--bundle", "-d", str(tmp_path)], check=True, timeout=60)
    for height in (200, 640):
        table = torch.rand(height, 192).half()
        out = torch.zeros(4, 192, dtype=torch.float16, device="spyre")
        _C.launch_kernel(str(tmp_path), [table.to("spyre"), on_card[1], out])
        assert out.cpu().equal(table.to("spyre").cpu()[rows])
    with pytest.raises(RuntimeError, match="row 199, outside"):
        _C.launch_kernel(str(tmp_path), [table[:64].to("spyre"), on_card[1], out])
        torch.spyre.synchronize()


def test_constants_have_the_bits_of_the_format():
    # SEN169_FP16: exponent bias 31, 9 bits of fraction.
    assert _C.encode_constant(1.0, DataFormats.SEN169_FP16) == 31 << 9
    assert _C.encode_constant(-1.5, DataFormats.SEN169_FP16) == 1 << 15 | 31 << 9 | 1 << 8
    assert _C.encode_constant(1.0, DataFormats.IEEE_FP32) == 0x3F800000
    assert _C.encode_constant(7, DataFormats.IEEE_INT32) == 7
