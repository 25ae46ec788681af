# SPDX-License-Identifier: Apache-2.0
"""The parts of the benchmark that do not measure."""

import importlib.util
import json
import pathlib

import pytest

BENCH = pathlib.Path(__file__).parents[2] / "bench"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def compare():
    return load("compare")


@pytest.fixture(scope="module")
def summary():
    return load("summary")


def results(ratio: float, milliseconds: float = 1.0) -> dict:
    return {"tables": {"operations": {"add": {"spyre ms": milliseconds, "x fp32": ratio}}}}


def test_only_ratios_are_compared(compare):
    assert compare.worse(results(2.0, milliseconds=9.0), results(2.0)) == []


def test_a_fallen_ratio_is_reported(compare):
    assert compare.worse(results(1.0), results(2.0)) == [("operations: add / x fp32", 2.0, 1.0)]
    assert compare.worse(results(1.9), results(2.0)) == []


def test_a_new_row_has_nothing_to_fall_below(compare):
    assert compare.worse(results(0.1), {"tables": {}}) == []


def test_a_run_is_compared_with_results_of_its_processor(compare, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compare, "RESULTS", tmp_path)
    run = results(2.0) | {"host": {"model": "maker-1-2"}}
    compare.report(run)
    assert "No results of maker-1-2" in capsys.readouterr().out
    for name, ratio in (("maker-1-2.json", 4.0), ("other-1-2.json", 1.0)):
        (tmp_path / name).write_text(json.dumps(results(ratio)))
    compare.report(run)
    assert ": 1\n" in capsys.readouterr().out


HOST = {
    "processor": "Maker's", "capability": "AVX2", "threads": 2, "model": "maker-1-2",
    "torch": "2.13.0", "commit": "abc",
}  # fmt: skip


def test_the_summary_has_the_rows_that_were_measured(summary, tmp_path):
    row = {"spyre ms": 1.0, "x fp32": 1.234}
    run = {"host": HOST, "tables": {"operations": {"matmul 2048^3": row, "unnamed": row}}}
    (tmp_path / "maker-1-2.json").write_text(json.dumps(run))
    lines = summary.summary(tmp_path).splitlines()
    assert lines[0].startswith("Maker's, AVX2, 2 threads, maker-1-2 (PyTorch 2.13.0")
    assert lines[-1] == "| product 2048 x 2048 x 2048 | 1.23 |  |  |  |"


def test_the_summary_stands_between_its_marks(summary):
    page = f"first\n{summary.BEGIN}old\n{summary.END}last\n"
    assert summary.replaced(page, "new\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="once each"):
        summary.replaced("no marks", "new")


def test_the_readme_shows_the_committed_results(summary):
    page = summary.README.read_text()
    assert summary.replaced(page, summary.summary(summary.RESULTS)) == page
