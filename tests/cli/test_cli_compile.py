# SPDX-License-Identifier: Apache-2.0
import json
import re
import struct

import pytest
from command import GRAPHS, ROOT, files_below, mutations

ALL_GRAPHS = sorted(path.stem for path in GRAPHS.glob("*.graph"))


def graph(name):
    return GRAPHS / f"{name}.graph"


@pytest.mark.parametrize("name", ALL_GRAPHS)
def test_reports_every_node(spyre, name):
    lines = spyre.good("compile", graph(name)).splitlines()
    nodes = [line for line in lines if line.startswith("node ")]
    assert len(nodes) == len(re.findall(r"^%", graph(name).read_text(), re.MULTILINE))
    assert sum(line.startswith("segment ") for line in lines) >= 1


def test_writes_what_other_commands_read(spyre, tmp_path):
    output = tmp_path / "deep" / "out"
    spyre.good("compile", graph("softmax"), "-o", output)
    assert "5 steps" in spyre.good("inspect", output / "segment_0" / "bundle")
    assert "compute on device" in spyre.good("inspect", output / "segment_0" / "spyrecode")
    spyre.good("dxp", "--bundle", "-d", output / "segment_0" / "bundle")


def test_host_segments_write_nothing(spyre, tmp_path):
    output = tmp_path / "out"
    report = spyre.good("compile", graph("host"), "-o", output)
    assert "host, the card has no Airy functions" in report
    assert "segment 1 host: 1 nodes" in report
    assert sorted(path.name for path in output.iterdir()) == ["segment_0", "segment_2"]


def test_same_bytes_again(spyre, tmp_path):
    spyre.good("compile", graph("attention"), "-o", tmp_path / "a")
    spyre.good("compile", graph("attention"), "-o", tmp_path / "b")
    assert files_below(tmp_path / "a") == files_below(tmp_path / "b")


def test_settings(spyre, tmp_path):
    spyre.good("compile", graph("add"), "--set", "sencores=2", "-o", tmp_path / "two")
    assert "add on 2 cores in" in spyre.good("inspect", tmp_path / "two" / "segment_0" / "bundle")
    for value, message in (
        ("sencores", "--set: 'sencores' is not name=value"),
        ("cores=2", "no setting is named 'cores'"),
        ("lx_planning=maybe", "invalid LX_PLANNING value 'maybe': expected 0 or 1"),
    ):
        assert message in spyre.bad("compile", graph("add"), "--set", value)


def test_cores(spyre, tmp_path):
    spyre.good("compile", graph("add"), "--cores", 1, "-o", tmp_path / "one")
    assert "add on 1 core in" in spyre.good("inspect", tmp_path / "one" / "segment_0" / "bundle")
    spyre.good("compile", graph("add"), "--cores=4", "-o", tmp_path / "four")
    assert "add on 4 cores in" in spyre.good("inspect", tmp_path / "four" / "segment_0" / "bundle")


def test_dump(spyre, tmp_path):
    spyre.good("compile", graph("softmax"), "--dump", tmp_path)
    files = {path.suffix: path.read_text() for path in tmp_path.iterdir()}
    stages = {".graph", ".passes", ".loop", ".cost", ".why", ".lx", ".time", ".bundle",
              ".listing", ".txt"}  # fmt: skip
    assert set(files) == stages
    assert files[".txt"] == (tmp_path / "report.txt").read_text()
    assert "node 0 aten._softmax.default" in files[".txt"]
    assert "after propagate_layouts" in files[".passes"]
    assert files[".listing"].startswith("program\n")


def test_passes_to_skip(spyre, tmp_path):
    skipped = "work_distribution,joint_work_division"
    spyre.good("compile", graph("add"), "--skip", skipped, "-o", tmp_path / "out")
    assert "add on 1 core in" in spyre.good("inspect", tmp_path / "out" / "segment_0" / "bundle")
    line = spyre.bad("compile", graph("add"), "--skip", "memory_planning")
    assert "memory_planning is needed for correctness" in line
    assert "no pass is named 'polish'" in spyre.bad("compile", graph("add"), "--skip", "polish")


def test_strict_refuses_the_host(spyre):
    line = spyre.bad("compile", graph("host"), "--strict")
    assert "aten.special_airy_ai" in line and "host.py:2" in line


def test_output_must_be_new(spyre, tmp_path):
    (tmp_path / "notes").write_text("mine")
    line = spyre.bad("compile", graph("add"), "-o", tmp_path)
    assert "not an empty directory" in line
    assert files_below(tmp_path) == {"notes": b"mine"}
    assert "not an empty directory" in spyre.bad("compile", graph("add"), "-o", tmp_path / "notes")


def test_nothing_there(spyre, tmp_path):
    assert "absent.graph" in spyre.bad("compile", tmp_path / "absent.graph")
    assert str(tmp_path) in spyre.bad("compile", tmp_path)


def test_zero_bytes(spyre, tmp_path):
    path = tmp_path / "x.graph"
    path.write_bytes(b"input %x: f16[4]\nreturn %x\n\0")
    assert "not a text" in spyre.bad("compile", path)


@pytest.mark.parametrize("name", ["attention", "layer_norm", "cat"])
def test_damaged_graph_writes_nothing(spyre, tmp_path, name):
    path = tmp_path / "damaged.graph"
    refused = 0
    for what, data in mutations(graph(name).read_bytes(), 12):
        path.write_bytes(data)
        output = tmp_path / "out" / what
        done = spyre("compile", path, "-o", output)
        if done.returncode == 0:
            continue
        assert done.returncode == 2, (what, done.stderr)
        assert done.stdout == "" and done.stderr.count("\n") == 1
        assert "damaged.graph:" in done.stderr or "node" in done.stderr, done.stderr
        assert not output.exists()
        refused += 1
    assert refused > 10


def test_compiled_program_runs(spyre, tmp_path):
    """From a graph to numbers: relu on the bytes of two sticks."""
    source = tmp_path / "relu.graph"
    source.write_text("input %x: f16[2, 64]\n%y = aten.relu.default(%x) -> f16[2, 64]\nreturn %y\n")
    spyre.good("compile", source, "-o", tmp_path / "out")
    codes = [(i % 2) << 15 | 0x3E00 + i for i in range(128)]  # every other one negative
    (tmp_path / "x.bin").write_bytes(struct.pack("<128H", *codes))
    code = tmp_path / "out" / "segment_0" / "spyrecode"
    spyre.good(
        "run", code, "--input", f"0={tmp_path / 'x.bin'}", "--output", f"1={tmp_path / 'y.bin'}"
    )
    found = struct.unpack("<128H", (tmp_path / "y.bin").read_bytes())
    assert list(found) == [0 if i % 2 else codes[i] for i in range(128)]


NEGATION = """input %x: f16[{rows}, 2048]
%y = aten.neg.default(%x) -> f16[{rows}, 2048] @ "model \\"a\\".py:3"
return %y
"""


def counters_of(spyre, tmp_path, rows):
    source = tmp_path / "negation.graph"
    source.write_text(NEGATION.format(rows=rows))
    lines = spyre.good("compile", source, "--json").splitlines()
    assert len(lines) == 1
    return json.loads(lines[0])


def test_counters_of_a_copy(spyre, tmp_path):
    counters = counters_of(spyre, tmp_path, 2048)
    (kernel,) = counters["kernels"]
    total = counters["total"]
    assert kernel["name"].endswith("neg") and kernel["cores"] == 32
    assert kernel["memory_read_bytes"] == kernel["memory_written_bytes"] == 2048 * 2048 * 2
    assert kernel["bound"] == "memory" and kernel["memory_busy_us"] <= kernel["us"]
    assert total["name"] == "total" and total["us"] == kernel["us"]
    # "A balanced copy runs at 105 GB/s"
    assert abs(2 * kernel["memory_read_bytes"] / kernel["us"] / 1e3 - 105) < 1


def test_counters_of_more_than_memory(spyre, tmp_path):
    """8 GiB in, 8 GiB out: nothing is executed or allocated, and nothing else is printed."""
    small = counters_of(spyre, tmp_path, 1 << 14)["total"]
    large = counters_of(spyre, tmp_path, 1 << 21)["total"]
    assert large["memory_read_bytes"] == 128 * small["memory_read_bytes"]
    assert abs(large["us"] / small["us"] - 128) < 1


def test_counters_table(spyre, tmp_path):
    source = tmp_path / "negation.graph"
    source.write_text(NEGATION.format(rows=64))
    text = spyre.good("compile", source, "--counters")
    assert text.startswith(spyre.good("compile", source))
    head, kernel, total = text.splitlines()[-3:]
    assert head.split()[:2] == ["kernel", "cores"] and kernel.split()[4] == "memory"
    assert total.split()[0] == "total" and total.split()[3] == kernel.split()[3]


def test_stats_have_every_pass(spyre):
    passes = re.findall(r"PASS_ROW\((\w+)", (ROOT / "src/front/pass.def").read_text())
    text = spyre.good("compile", graph("softmax"), "--stats")
    table = re.search(r"^stage .*\n((?:\w.*\n)+)", text, re.MULTILINE).group(1).splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in table}
    assert list(rows) == ["build", "invariants", *passes, "emit", "sum"]
    assert float(rows["sum"][0]) == pytest.approx(
        sum(float(row[0]) for name, row in rows.items() if name != "sum"), abs=1.0
    )
    assert rows["build"][1] == "5" and rows["build"][-1] == "changed"
    assert int(rows["sum"][2]) == sum(int(row[3]) for n, row in rows.items() if n != "sum")
    assert re.search(r"^pass_memory_planning_us +\d+ ", text, re.MULTILINE)
    assert not spyre.good("compile", graph("softmax")).count("pass_")


def test_a_span_that_no_division_reaches(spyre, tmp_path):
    """Named with op, operand, numbers and rule; the program is made all the same."""
    source = tmp_path / "neg.graph"
    source.write_text(
        "input %x: f16[512, 1024]\n%p = aten.neg.default(%x) -> f16[512, 1024]\nreturn %p\n"
    )
    limits = ("--cores", "4", "--set", "max_span_bytes=1024")
    done = spyre("compile", source, *limits, "--skip", "coarse_tile")
    assert done.returncode == 0
    assert done.stderr == (
        "spyre critical: op 0 p neg (unknown source line), operand 0 (%x): divided c1/4, "
        "a core reaches over 262144 bytes, at most 1024 are allowed; "
        "no division over 4 cores stays below\n"
    )
    spyre.good("compile", source, *limits)  # in tiles
