# SPDX-License-Identifier: Apache-2.0
"""Compiling on from the loop IR that passes left in a dump."""

import re

import pytest
from command import GRAPHS, files_below

ALL_GRAPHS = sorted(path.stem for path in GRAPHS.glob("*.graph"))


def compiled(spyre, folder, *arguments):
    spyre.good("compile", *arguments, "-o", folder)
    return folder


@pytest.mark.parametrize("name", ALL_GRAPHS)
def test_goes_on_to_the_same_files(spyre, tmp_path, name):
    dump = tmp_path / "dump"
    whole = compiled(spyre, tmp_path / "whole", GRAPHS / f"{name}.graph", "--dump", dump)
    for listing in sorted(dump.glob("*.passes")):
        segment = files_below(whole / listing.stem.replace("segment", "segment_"))
        passes = re.findall(r"^after (\w+)$", listing.read_text(), re.MULTILINE)
        for after in [passes[0], passes[len(passes) // 2]]:
            out = compiled(spyre, tmp_path / listing.stem / after, listing, "--after", after)
            assert files_below(out / "segment_0") == segment
        out = compiled(spyre, tmp_path / listing.stem / "end", listing.with_suffix(".loop"))
        assert files_below(out / "segment_0") == segment


def test_needs_no_source_lines(spyre, tmp_path):
    graph, dump = tmp_path / "softmax.graph", tmp_path / "dump"
    graph.write_text(re.sub(r' @ ".*"', "", (GRAPHS / "softmax.graph").read_text()))
    whole = compiled(spyre, tmp_path / "whole", graph, "--dump", dump)
    again = compiled(spyre, tmp_path / "again", dump / "segment0.loop")
    assert files_below(again) == files_below(whole)


UPDATE = """
input %cache: f16[4, 64, 64]
input %row: f16[4, 1, 64]
%neg = aten.neg.default(%row) -> f16[4, 1, 64] @ "model.py:3"
%new = aten.slice_scatter.default(%cache, %neg, 1, 5, 6, 1) -> f16[4, 64, 64] @ "model.py:4"
%sum = aten.add.Tensor(%new, %row, 1) -> f16[4, 64, 64] @ "model.py:5"
return %sum, %new into %cache
"""


def test_knows_what_replaces_an_input(spyre, tmp_path):
    graph, dump = tmp_path / "update.graph", tmp_path / "dump"
    graph.write_text(UPDATE)
    whole = compiled(spyre, tmp_path / "whole", graph, "--dump", dump)
    final = (dump / "segment0.loop").read_text()
    assert " replaced(1) " in final and final.count("\nop ") == 2 and "\n    b1[320 " in final
    passes = dump / "segment0.passes"
    again = compiled(spyre, tmp_path / "again", passes, "--after", "build")
    assert files_below(again) == files_below(whole)
    wrong = tmp_path / "wrong.loop"
    wrong.write_text(final.replace("replaced(1)", "replaced(2)"))
    assert "b1 is replaced by output 2 of 2" in spyre.bad("compile", wrong)


def test_keeps_the_settings_of_the_text(spyre, tmp_path):
    options = ["--cores", 3, "--skip", "lx_planning"]
    dump = tmp_path / "dump"
    graph = GRAPHS / "softmax.graph"
    whole = compiled(spyre, tmp_path / "whole", graph, *options, "--dump", dump)
    passes = dump / "segment0.passes"
    assert "\nset sencores=3\nset skip_passes=lx_planning\n" in passes.read_text()
    again = compiled(spyre, tmp_path / "again", passes, "--after", "build")
    assert files_below(again) == files_below(whole)


def test_other_commands_take_it_too(spyre, tmp_path):
    dump = tmp_path / "dump"
    spyre.good("compile", GRAPHS / "softmax.graph", "--dump", dump)
    for command in ("why", "lx"):
        from_graph = spyre.good(command, GRAPHS / "softmax.graph")
        assert spyre.good(command, dump / "segment0.loop") == from_graph


def test_a_changed_division_is_taken(spyre, tmp_path):
    dump = tmp_path / "dump"
    whole = compiled(spyre, tmp_path / "whole", GRAPHS / "softmax.graph", "--dump", dump)
    passes = dump / "segment0.passes"
    undivided = re.sub(r" split\([^)]*\)| by\([^)]*\)", "", passes.read_text())
    assert undivided != passes.read_text()
    passes.write_text(undivided)
    again = tmp_path / "again"
    options = ["--after", "joint_work_division", "--dump", again]
    out = compiled(spyre, tmp_path / "out", passes, *options)
    assert "split(" not in (again / "segment0.loop").read_text()
    assert files_below(out) != files_below(whole)


def test_refusals(spyre, tmp_path):
    dump = tmp_path / "dump"
    graph = GRAPHS / "softmax.graph"
    spyre.good("compile", graph, "--dump", dump)
    passes = dump / "segment0.passes"
    assert "a second program" in spyre.bad("compile", passes)
    assert "no pass is named 'tea'" in spyre.bad("compile", passes, "--after", "tea")
    said = spyre.bad("compile", passes, "--after", "reroll_steps")
    assert "nothing is after reroll_steps" in said
    assert "'set NAME=VALUE'" in spyre.bad("compile", passes, "--after", "build", "--cores", 4)
    assert "is no .loop or .passes file" in spyre.bad("compile", graph, "--after", "build")
