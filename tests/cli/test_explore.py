# SPDX-License-Identifier: Apache-2.0
"""spyre explore: the page of a dump."""

import html.parser
import math
import re
import shutil
import subprocess

import pytest
from command import GRAPHS, mutations

STAGES = ("graph", "passes", "loop", "bundle", "listing", "lx", "why", "cost", "time")
VOID = {"meta", "br", "img", "link", "input"}


class Page(html.parser.HTMLParser):
    """Elements with a stage's marks, and that every tag is closed where it must be."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.elements = []  # (tag, attributes, segment, stage, pass)
        self.text = {}  # by index into elements: own text
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        above = self.open[-1] if self.open else ("", None, None, None, 0)
        self.elements.append((tag, attributes))
        inherited = [
            attributes.get(key, above[i])
            for i, key in enumerate(("data-segment", "data-stage", "data-pass"), 1)
        ]
        self.elements[-1] += tuple(inherited)
        if tag not in VOID:
            self.open.append((tag, *inherited, len(self.elements) - 1))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open:
            at = self.open[-1][4]
            self.text[at] = self.text.get(at, "") + data

    def values(self, key, stage, segment="0"):
        """The values of an attribute in a stage."""
        return [
            e[1][key] for e in self.elements if key in e[1] and (e[2], e[3]) == (segment, stage)
        ]

    def lines(self, stage, chosen=None):
        return [
            self.text.get(i, "")
            for i, e in enumerate(self.elements)
            if e[1].get("class") == "l" and e[3] == stage and (chosen is None or e[4] == chosen)
        ]


@pytest.fixture
def dump(spyre, tmp_path):
    """A function: the dump of a golden graph."""

    def make(name):
        folder = tmp_path / name
        # Tests name lines of mlp, which has four ops when none of them goes over the ring.
        options = ["--set", "lx_planner_relayout=0"] if name == "mlp" else []
        spyre.good("compile", GRAPHS / f"{name}.graph", "--dump", folder, *options)
        return folder

    return make


def explore(spyre, folder, output):
    assert spyre.good("explore", folder, "-o", output) == ""
    return Page(output.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["mlp", "attention", "cat", "gather", "reductions"])
def test_every_op_is_in_every_column(spyre, dump, tmp_path, name):
    folder = dump(name)
    page = explore(spyre, folder, tmp_path / "page.html")
    count = len(re.findall(r"^op ", (folder / "segment0.loop").read_text(), re.M))
    ops = {str(i) for i in range(count)}
    assert count >= 1
    for stage in ("loop", "bundle", "listing", "why", "cost", "cores", "lx"):
        assert set(page.values("data-op", stage)) == ops, stage
    values = {n for nodes in page.values("data-node", "graph") for n in nodes.split()}
    assert set(page.values("data-node", "cores")) <= values
    links = [e[1]["href"] for e in page.elements if "href" in e[1]]
    assert links == [f"#segment=0&op={i}" for i in range(count)]


def test_texts_are_whole(spyre, dump, tmp_path):
    folder = dump("attention")
    page = explore(spyre, folder, tmp_path / "page.html")
    for stage in ("graph", "bundle", "listing", "why", "cost", "time"):
        text = (folder / f"segment0.{stage}").read_text()
        assert page.lines(stage) == text.splitlines(), stage
    assert page.lines("report") == (folder / "report.txt").read_text().splitlines()
    assert page.lines("loop", "final") == (folder / "segment0.loop").read_text().splitlines()
    passes = re.split(r"^after (.*)\n", (folder / "segment0.passes").read_text(), flags=re.M)
    shown = [
        page.text[i] for i, e in enumerate(page.elements) if e[0] == "option" and e[3] == "loop"
    ]
    assert shown == [*passes[1::2], "all passes"]
    for number, listing in enumerate(passes[2::2]):
        assert page.lines("loop", str(number)) == listing.strip("\n").splitlines()


def test_errors_are_about_the_values_of_their_lines(spyre, dump, tmp_path):
    folder = dump("mlp")
    ops = re.findall(r"^op .*  // (\S+), (\S+)", (folder / "segment0.loop").read_text(), re.M)
    place = ops[0][1]
    lines = ["operator  relative  line", f"aten.mm.default  0.001  {place}", "other  1  x.py:1"]
    (folder / "numerics.txt").write_text("\n".join(lines))
    page = explore(spyre, folder, tmp_path / "page.html")
    assert page.lines("numerics") == lines
    here = " ".join(name for name, line in ops if line == place)
    assert here and page.values("data-node", "numerics") == [here]


def test_cores(spyre, dump, tmp_path):
    """The page's slices are those of the loop IR."""
    folder = dump("add")
    page = explore(spyre, folder, tmp_path / "page.html")
    at = {
        e[1]["data-op"]: i
        for i, e in enumerate(page.elements)
        if e[0] == "tr" and "data-op" in e[1]
    }
    ops = re.findall(r"^op (\d+) (.*)$", (folder / "segment0.loop").read_text(), re.M)
    for op, line in ops:
        splits = re.findall(r" split\((c\d+)/(\d+)(?::(\d+))?\)", line)
        slices = [(int(count), int(step or 1)) for _, count, step in splits]
        cores = math.prod(count for count, _ in slices)
        expected = [",".join(str(core // step % n) for n, step in slices) for core in range(cores)]
        cells = [page.text.get(at[op] + 3 + i, "") for i in range(33)]
        assert cells[0] == " ".join(f"{var}/{count}" for var, count, _ in splits)
        assert cells[1:] == (expected if splits else ["all"]) + [""] * (32 - cores)
    assert any(line.count(" split(") == 2 for _, line in ops)


def test_needs_no_other_file(spyre, dump, tmp_path):
    page = explore(spyre, dump("mlp"), tmp_path / "page.html")
    assert not [e for e in page.elements if "src" in e[1] or e[0] in ("link", "img", "iframe")]
    assert not re.search(
        r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", (tmp_path / "page.html").read_text()
    )


def test_segments_and_folders_of_torch_compile(spyre, dump, tmp_path):
    (tmp_path / "model").mkdir()
    dump("host").rename(tmp_path / "model" / "stages")
    page = explore(spyre, tmp_path / "model", tmp_path / "page.html")
    assert [e[1]["id"] for e in page.elements if e[0] == "article"] == ["segment0", "segment2"]
    assert page.values("data-op", "loop", "2")


FX = """class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f16[4, 64]"):
         # File: mlp.py:1 in f
        h: "f16[4, 64]" = torch.ops.aten.mm.default(arg0_1)
        g: "f16[4, 64]" = torch.ops.aten.gelu.default(h)
        return (g,)
"""


def with_fx(dump, tmp_path, text=FX):
    """A folder as torch.compile leaves it."""
    folder = tmp_path / "model"
    folder.mkdir()
    dump("mlp").rename(folder / "stages")
    for name in ("fx_graph_readable.py", "fx_graph_transformed.py"):
        (folder / name).write_text(text)
    (folder / "stages" / "report.txt").rename(folder / "report.txt")
    return folder


def test_fx_graphs_and_report(spyre, dump, tmp_path):
    folder = with_fx(dump, tmp_path)
    page = explore(spyre, folder, tmp_path / "page.html")
    for stage in ("traced", "fx"):
        assert page.lines(stage) == FX.splitlines()
        assert page.values("data-node", stage) == ["h", "g"]
    assert page.lines("report") == (folder / "report.txt").read_text().splitlines()
    (folder / "fx_graph_readable.py").unlink()
    assert explore(spyre, folder, tmp_path / "page.html").lines("traced") == []
    (folder / "fx_graph_transformed.py").write_bytes(b"\0")
    assert "fx_graph_transformed.py: not a text" in spyre.bad(
        "explore", folder, "-o", tmp_path / "other.html"
    )


def test_fx_lines_light_up(spyre, dump, tmp_path, browser):
    folder = with_fx(dump, tmp_path, FX + EVIL)
    explore(spyre, folder, tmp_path / "page.html")
    page = browser(tmp_path / "page.html", "op=1")
    assert {e[3] for e in lit(page)} >= {"fx", "traced", "loop", "cost"}
    assert [e[1]["data-node"] for e in lit(page) if e[3] == "fx"] == ["g"]
    assert sum(e[0] == "script" for e in page.elements) == 1


EVIL = "</div><script>alert(1)</script>"


def test_names_stay_text(spyre, dump, tmp_path):
    folder = dump("mlp")
    for stage in STAGES:
        path = folder / f"segment0.{stage}"
        text = path.read_text()
        changed = re.sub(r"(// |%)h\b", lambda match: match[1] + EVIL, text)
        path.write_text(changed.replace('"mlp.py:1"', f'"{EVIL}"'))
    page = explore(spyre, folder, tmp_path / EVIL.replace("/", "_"))
    assert sum(e[0] == "script" for e in page.elements) == 1
    assert any(EVIL in line for line in page.lines("graph"))
    assert EVIL in page.values("data-node", "cores")


def test_bad_directories(spyre, dump, tmp_path):
    output = tmp_path / "page.html"
    missing = tmp_path / "none"
    assert spyre.bad("explore", missing, "-o", output).endswith(f"{missing}: no such directory")
    missing.mkdir()
    assert f"{missing}: holds no segment<n>.loop" in spyre.bad("explore", missing, "-o", output)
    assert "a directory is missing" in spyre.bad("explore", "-o", output)
    assert "-o FILE.html is missing" in spyre.bad("explore", missing)
    assert "unexpected argument" in spyre.bad("explore", missing, missing, "-o", output)
    folder = dump("mlp")
    nowhere = tmp_path / "no" / "page.html"
    assert str(nowhere) in spyre.bad("explore", folder, "-o", nowhere)
    for stage in STAGES:
        path = folder / f"segment0.{stage}"
        content = path.read_bytes()
        path.unlink()
        name = folder if stage == "loop" else path
        assert str(name) in spyre.bad("explore", folder, "-o", output)
        path.write_bytes(content + b"\0")
        assert f"{path}: not a text" in spyre.bad("explore", folder, "-o", output)
        path.write_bytes(content)
    assert not output.exists()


BROKEN = [
    ("loop", "op 1 gelufwd", "op 2 gelufwd", "line LINE: ops are numbered from 0 in order"),
    ("loop", "split(c0/3)", "split(c0/33)", "line LINE: splits make more slices than a card has"),
    ("loop", "split(c0/3)", "split(c0)", "line LINE: a split is 'split(cN/SLICES)'"),
    ("loop", "  // h, mlp.py:1", "", "line LINE: the name behind '  // ' is missing"),
    ("passes", "after build", "behind build", "does not begin with 'after PASS'"),
    (
        "bundle",
        "step 1  1_gelufwd",
        "step 1  9_gelufwd",
        "line LINE: op 9, the final loop IR has 4 ops",
    ),
    ("bundle", "step 1  1_gelufwd", "step 1", "line LINE: a step is 'step N  OP_OPFUNC'"),
    ("listing", 'kernel 1 "1_', 'kernel 1 "4_', "op 4, the final loop IR has 4 ops"),
    ("listing", 'kernel 1 "1_', 'kernel 7 "1_', "kernels are named"),
    ("why", "  1_gelufwd", "", "line LINE: a kernel without a name"),
    ("cost", "op 3 y", "op 4 y", "line LINE: op 4, the final loop IR has 4 ops"),
    (
        "lx",
        "op 3 batchmatmul",
        "op 3 exp  // x, mlp.py:3\nop 4 batchmatmul",
        "5 ops, segment0.loop has 4",
    ),
    ("lx", "ops(0..1)", "ops(0..2)", "it overlaps an earlier buffer in time and place"),
]


@pytest.mark.parametrize(("stage", "old", "new", "rule"), BROKEN)
def test_broken_files(spyre, dump, tmp_path, stage, old, new, rule):
    folder = dump("mlp")
    path = folder / f"segment0.{stage}"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    message = spyre.bad("explore", folder, "-o", tmp_path / "page.html")
    line = text[: text.index(old)].count("\n") + 1
    assert f"{path}: " in message and rule.replace("LINE", str(line)) in message
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("stage", STAGES)
def test_damaged_files(spyre, dump, tmp_path, stage):
    """Whatever a file holds: one line that says so, or a page with no script but its own."""
    folder = dump("mlp")
    path = folder / f"segment0.{stage}"
    for case, data in mutations(path.read_bytes(), 12):
        path.write_bytes(data)
        done = spyre("explore", folder, "-o", tmp_path / "page.html")
        assert done.returncode in (0, 2), case
        if done.returncode == 0:
            page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
            assert sum(e[0] == "script" for e in page.elements) == 1, case
        else:
            assert f"segment0.{stage}" in done.stderr or stage == "loop", case


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A function: the page as a browser leaves it after its script ran on a fragment."""
    path = shutil.which("chromium")
    if not path:
        pytest.skip("no browser: the Debian package chromium is not installed")
    profile = tmp_path_factory.mktemp("profile")

    def render(file, fragment):
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        done = subprocess.run(
            [path, *flags, "--dump-dom", f"{file.as_uri()}#{fragment}"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return Page(done.stdout)

    return render


def lit(page, kind="hit"):
    return [e for e in page.elements if kind in (e[1].get("class") or "").split()]


def test_an_op_lights_up_everywhere(spyre, dump, tmp_path, browser):
    explore(spyre, dump("mlp"), tmp_path / "page.html")
    page = browser(tmp_path / "page.html", "op=1")
    marked = lit(page)
    stages = {"graph", "loop", "bundle", "listing", "why", "cost", "cores", "lx"}
    assert {e[3] for e in marked} == stages
    assert {e[1].get("data-op", e[1].get("data-first")) for e in lit(page, "exact")} == {"1"}
    others = [e for e in marked if "exact" not in e[1]["class"].split()]
    assert {e[1]["data-node"] for e in others} == {"g"}
    assert {e[4] for e in others if e[3] == "loop"} >= {"0", "1", "final"}
    unmarked = [e for e in page.elements if e[1].get("data-op") == "1" and e not in marked]
    assert unmarked == []
    assert lit(browser(tmp_path / "page.html", "segment=0")) == []


def test_parts_of_a_node_light_up_with_it(spyre, dump, tmp_path, browser):
    """A softmax %p becomes %p.1 to %p.4 and %p; FX knows p alone."""
    folder = dump("softmax")
    (folder / "fx_graph_transformed.py").write_text("    p = torch.ops.aten._softmax(x)\n")
    explore(spyre, folder, tmp_path / "page.html")
    page = browser(tmp_path / "page.html", "op=2")
    assert [e[1]["data-node"] for e in lit(page) if e[3] == "fx"] == ["p"]
    assert [e[1]["data-node"] for e in lit(page) if e[3] == "graph"] == ["p.3", "p"]
    page = browser(tmp_path / "page.html", "node=p")
    parts = ["p.1", "p.2", "p.3", "p.4", "p"]
    assert [e[1]["data-node"] for e in lit(page) if e[3] == "graph"] == parts
    assert {e[1]["data-op"] for e in lit(page) if e[3] == "bundle"} == set("01234")


def test_a_value_lights_up_its_ops(spyre, dump, tmp_path, browser):
    explore(spyre, dump("attention"), tmp_path / "page.html")
    page = browser(tmp_path / "page.html", "segment=0&node=a.4")
    ops = {e[1]["data-op"] for e in lit(page) if e[3] == "bundle"}
    loop = (tmp_path / "attention" / "segment0.loop").read_text()
    assert ops == set(re.findall(r"^op (\d+) .*  // a\.4,", loop, re.M)) and len(ops) > 1
    assert [e[1]["data-node"] for e in lit(page) if e[3] == "graph"] == ["a.4"]


def test_a_script_in_a_name_does_not_run(spyre, dump, tmp_path, browser):
    folder = dump("mlp")
    path = folder / "segment0.graph"
    evil = '<img src=x onerror="document.title=1"><script>document.title="ran"</script>'
    path.write_text(path.read_text().replace("%h", f"%{evil}"))
    explore(spyre, folder, tmp_path / "page.html")
    page = browser(tmp_path / "page.html", "op=0")
    titles = [page.text[i] for i, e in enumerate(page.elements) if e[0] == "title" and not e[2]]
    assert titles == [str(folder)]
    assert sum(e[0] == "script" for e in page.elements) == 1
