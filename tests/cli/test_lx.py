# SPDX-License-Identifier: Apache-2.0
"""spyre lx: the map as text and as a picture."""

import itertools
import re
import xml.etree.ElementTree as ET

import pytest
from command import GRAPHS

ALL_GRAPHS = sorted(GRAPHS.glob("*.graph"), key=lambda path: path.stem)
SVG = "{http://www.w3.org/2000/svg}"
BUFFER = re.compile(
    r"^buffer b(\d+) lx\((\d+)\+(\d+)\) ops\((\d+)\.\.(\d+)\)(?: in place of b(\d+))?  // (\S+)$",
    re.M,
)


def draw(spyre, graph, tmp_path, *options):
    picture = tmp_path / "lx.svg"
    assert spyre.good("lx", graph, "-o", picture, *options) == ""
    return ET.parse(picture).getroot()


def rectangles(root, kind):
    return [r for r in root.iter(f"{SVG}rect") if r.get("class") == kind]


def box(rectangle):
    x, y, width, height = (float(rectangle.get(k)) for k in ("x", "y", "width", "height"))
    assert width > 0 and height > 0
    return x, y, x + width, y + height


def apart(a, b):
    epsilon = 2e-3
    return (
        a[2] <= b[0] + epsilon or b[2] <= a[0] + epsilon or a[3] <= b[1] + epsilon
        or b[3] <= a[1] + epsilon
    )  # fmt: skip


@pytest.mark.parametrize("path", ALL_GRAPHS, ids=lambda path: path.stem)
def test_a_rectangle_a_buffer(spyre, path, tmp_path):
    buffers = BUFFER.findall(spyre.good("lx", path))
    root = draw(spyre, path, tmp_path)
    drawn = rectangles(root, "lx-buffer")
    for (number, offset, size, first, last, parent, name), rectangle in zip(
        buffers, drawn, strict=True
    ):
        got = [rectangle.get(f"data-{key}") for key in ("buffer", "first", "last")]
        assert got == [number, first, last]
        tip = f"{name} (b{number}): {size} bytes at {offset}, ops {first} to {last}"
        assert rectangle.find(f"{SVG}title").text == tip + (
            f", in place of b{parent}" if parent else ""
        )
    for a, b in itertools.combinations([box(r) for r in drawn], 2):
        assert apart(a, b)
    in_place = [buffer for buffer in buffers if buffer[5]]
    assert len([p for p in root.iter(f"{SVG}path") if p.get("class") == "lx-place"]) == len(
        in_place
    )


def test_matches_the_loop_ir(spyre, tmp_path):
    graph = GRAPHS / "attention.graph"
    spyre.good("compile", graph, "--dump", tmp_path)
    loop = (tmp_path / "segment0.loop").read_text()
    placed = re.findall(r"^buffer b(\d+) .* lx\((\d+)\+(\d+)\)", loop, re.M)
    assert len(placed) >= 5
    assert [buffer[:3] for buffer in BUFFER.findall(spyre.good("lx", graph))] == placed
    assert len(rectangles(draw(spyre, graph, tmp_path), "lx-op")) == loop.count("\nop ")


def test_in_place_follows_without_a_gap(spyre, tmp_path):
    root = draw(spyre, GRAPHS / "mlp.graph", tmp_path)
    h, g, *_ = (box(r) for r in rectangles(root, "lx-buffer"))
    assert h[2] == pytest.approx(g[0], abs=2e-3) and h[1] == g[1] and h[3] == g[3]


def limits(root):
    """Texts and heights of the lines of the limit."""
    lines = [p.get("d") for p in root.iter(f"{SVG}path") if p.get("class") == "lx-limit"]
    texts = [t.text for t in root.iter(f"{SVG}text") if t.text.startswith("limit ")]
    return list(zip(texts, (float(re.match(r"M\d+ ([\d.]+)H", d)[1]) for d in lines), strict=True))


def test_scale_and_limit(spyre, tmp_path):
    """Heights are bytes below the limit; one that is far away is not to scale."""
    source = tmp_path / "wide.graph"
    source.write_text(
        "input %x: f16[4096, 4096]\n"
        '%a = aten.neg.default(%x) -> f16[4096, 4096] @ "m.py:1"\n'
        '%b = aten.exp.default(%a) -> f16[4096, 4096] @ "m.py:2"\n'
        "return %b\n"
    )
    root = draw(spyre, source, tmp_path)
    (a,) = (box(r) for r in rectangles(root, "lx-buffer"))
    ((text, limit),) = limits(root)
    assert text == "limit 1677696 bytes"
    assert (a[3] - a[1]) / (a[3] - limit) == pytest.approx(4096 * 4096 * 2 / 32 / 1677696, rel=1e-4)
    ((text, limit),) = limits(draw(spyre, GRAPHS / "mlp.graph", tmp_path))
    assert text == "limit 1677696 bytes, not to scale"


def test_without_buffers(spyre, tmp_path):
    root = draw(spyre, GRAPHS / "softmax.graph", tmp_path, "--set", "lx_planning=0")
    assert rectangles(root, "lx-buffer") == []
    assert "no buffers in LX" in [t.text for t in root.iter(f"{SVG}text")]
    assert "lx 0 buffers, at most 0 of " in spyre.good(
        "lx", GRAPHS / "softmax.graph", "--set", "lx_planning=0"
    )


def test_a_panel_a_segment(spyre, tmp_path):
    texts = [t.text for t in draw(spyre, GRAPHS / "host.graph", tmp_path).iter(f"{SVG}text")]
    assert "segment 0" in texts and "segment 2" in texts and "segment 1" not in texts


def test_bad_input(spyre, tmp_path):
    broken = tmp_path / "broken.graph"
    broken.write_text("input %x: f16[4\n")
    picture = tmp_path / "lx.svg"
    assert str(broken) in spyre.bad("lx", broken, "-o", picture)
    assert not picture.exists()
    assert "-o needs a value" in spyre.bad("lx", broken, "-o")
    nowhere = tmp_path / "none" / "lx.svg"
    assert str(nowhere) in spyre.bad("lx", GRAPHS / "mlp.graph", "-o", nowhere)
    assert "unexpected argument" in spyre.bad("lx", broken, broken)
