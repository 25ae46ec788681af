# SPDX-License-Identifier: Apache-2.0
"""spyre why: kernels, what binds them, what one change would save."""

import json
import re

import pytest
from command import GRAPHS

ALL_GRAPHS = sorted(GRAPHS.glob("*.graph"), key=lambda path: path.stem)
KERNEL = re.compile(
    r"^ +([\d.]+) +([\d.]+) %  (memory|pt|sfp|ring|order)-bound (\d+ %|\(memory \d+ %\))"
    r" +(\w+) +(\S+)$"
)
CHANGE = re.compile(r"^ +if (.+): -([\d.e+-]+) us$")


def read(text):
    """[(kernel, source, us, bound, [(change, saved us)])] of the only card segment."""
    kernels = []
    for line in text.splitlines():
        if match := KERNEL.match(line):
            us, _, bound, _, name, source = match.groups()
            kernels.append((name, source, float(us), bound, []))
        elif match := CHANGE.match(line):
            kernels[-1][4].append((match[1], float(match[2])))
    return kernels


@pytest.mark.parametrize("path", ALL_GRAPHS, ids=lambda path: path.stem)
def test_agrees_with_the_counters(spyre, path):
    text = spyre.good("why", path)
    counted = []
    for line in spyre.good("compile", path, "--json").splitlines():
        counted += json.loads(line)["kernels"]
    kernels = read(text)
    assert [kernel[0] for kernel in kernels] == [k["name"] for k in counted]
    assert [kernel[3] for kernel in kernels] == [k["bound"] for k in counted]
    assert [kernel[2] for kernel in kernels] == [round(k["us"], 3) for k in counted]
    assert all(len(kernel[4]) <= 3 for kernel in kernels)
    assert all(saved > 0 for kernel in kernels for _, saved in kernel[4])
    assert text.count(" us roofline, of ") == len(re.findall(r"^segment \d+: card$", text, re.M))


def test_roofline(spyre):
    """Traffic over bandwidth, products over the rate of all cores."""
    text = spyre.good("why", GRAPHS / "mlp.graph")
    total = json.loads(spyre.good("compile", GRAPHS / "mlp.graph", "--json"))["total"]
    memory = (total["memory_read_bytes"] + total["memory_written_bytes"]) / 150e3
    products = total["macs"] / (32 * 1.14e6)
    line = (
        f"{max(memory, products):.3f} us roofline, of memory (memory {memory:.3f} us, products "
        f"{products:.3f} us); the plan takes {total['us'] / memory:.2f} times as long"
    )
    assert text.splitlines()[-1].strip() == line


def test_restickifies_of_inputs(spyre):
    kernels = read(spyre.good("why", GRAPHS / "attention.graph"))
    without = [k[0] for k in kernels for change, _ in k[4] if " came with the stick " in change]
    assert without and all(name.endswith("_ReStickifyOpHBM") for name in without)


def test_settings(spyre):
    """Without LX every intermediate would gain from it; with it, none that is there."""
    softmax = GRAPHS / "softmax.graph"
    without = spyre.good("why", softmax, "--set", "lx_planning=0")
    assert "(in memory:" not in without and without.count(" stayed in LX (there is room): -") >= 4
    apart = ["--set", "lx_planner_relayout=0", "--set", "work_division=published"]
    mlp = spyre.good("why", GRAPHS / "mlp.graph", *apart)
    assert "%g " not in mlp and "if %t (b6) stayed in LX (in memory: " in mlp
    assert " stayed in LX" not in spyre.good("why", GRAPHS / "mlp.graph")


PRODUCTS = """input %x: f16[512, 512]
input %u: f16[512, 2048]
input %d: f16[2048, 512]
%a = aten.mm.default(%x, %u) -> f16[512, 2048] @ "mlp.py:1"
%t = aten.relu.default(%a) -> f16[512, 2048] @ "mlp.py:2"
%p = aten.mm.default(%t, %d) -> f16[512, 512] @ "mlp.py:3"
return %p
"""


def test_ring(spyre, tmp_path):
    """What its reader divides otherwise goes over the ring, and is named as that."""
    graph = tmp_path / "products.graph"
    graph.write_text(PRODUCTS)
    assert re.search(r"ring-bound 100 % +2_shuffle +mlp\.py:3$", spyre.good("why", graph), re.M)
    lx = spyre.good("lx", graph)
    assert "op 2 shuffle  // t, mlp.py:3" in lx and lx.count("// t\n") == 2


def test_hosts(spyre):
    assert "\nsegment 1: host, 1 nodes\n" in spyre.good("why", GRAPHS / "host.graph")


def test_bad_input(spyre, tmp_path):
    broken = tmp_path / "broken.graph"
    broken.write_text("input %x: f16[4\n")
    assert str(broken) in spyre.bad("why", broken)
    assert "a .graph or .loop file is missing" in spyre.bad("why")
    assert "No such file" in spyre.bad("why", tmp_path / "none.graph")
    assert "unknown option '-o'" in spyre.bad("why", broken, "-o", "x")
    assert "--set needs a value" in spyre.bad("why", broken, "--set")
    assert "no setting is named 'cores'" in spyre.bad("why", broken, "--set", "cores=2")


EXCHANGES = """input %x: f16[64, 1024]
input %w: f16[1024, 1024]
%a = aten.neg.default(%x) -> f16[64, 1024]
%s = _c10d_functional.all_reduce.default(%a, "sum", "0") -> f16[64, 1024]
%p = aten.mm.default(%x, %w) -> f16[64, 1024]
%r = _c10d_functional.wait_tensor.default(%s) -> f16[64, 1024]
%c = aten.add.Tensor(%r, %p) -> f16[64, 1024]
%t = _c10d_functional.all_gather_into_tensor.default(%c, 4, "0") -> f16[256, 1024]
%g = _c10d_functional.wait_tensor.default(%t) -> f16[256, 1024]
return %g
"""
EXCHANGE = re.compile(r"^ +([\d.]+) +([\d.]+) +(\d+) +(\d+)  (\w+)\S* \(node (\d+)\)")


def test_tells_what_is_hidden_between_cards(spyre, tmp_path):
    path = tmp_path / "exchanges.graph"
    path.write_text(EXCHANGES)
    text = spyre.good("why", path, "--ranks", "2")
    found = [match.groups() for line in text.splitlines() if (match := EXCHANGE.match(line))]
    assert [one[2:] for one in found] == [
        ("131072", "2", "all_reduce", "1"),
        ("131072", "4", "all_gather_into_tensor", "5"),  # the graph says how many
    ]
    reduce, gather = ((float(us), float(hidden)) for us, hidden, *_ in found)
    assert 0 < reduce[1] <= reduce[0]  # behind the product
    assert gather[0] > 0 and gather[1] == 0  # nothing is left to do
    total = f"{reduce[0] + gather[0]:10.3f} us between cards, {reduce[1]:.3f} us"
    assert text.splitlines()[-1].startswith(total)
    more = spyre.good("why", path)
    assert [line.split()[3] for line in more.splitlines() if EXCHANGE.match(line)] == ["8", "4"]
    assert "--ranks 0: must be a positive integer" in spyre.bad("why", path, "--ranks", "0")


def test_the_explorer_shows_exchanges(spyre, tmp_path):
    (tmp_path / "exchanges.graph").write_text(EXCHANGES)
    spyre.good("compile", tmp_path / "exchanges.graph", "--dump", tmp_path / "dump")
    spyre.good("explore", tmp_path / "dump", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Exchanges between cards" in page and "us between cards, " in page
