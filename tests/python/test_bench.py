# SPDX-License-Identifier: Apache-2.0
"""The parts of the benchmark that do not measure."""

import importlib.util
import json
import pathlib

import pytest

BENCH = pathlib.Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def compare():
    spec = importlib.util.spec_from_file_location("compare", BENCH / "compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(ratio: float, milliseconds: float = 1.0) -> dict:
    return {"tables": {"operations": {"add": {"spyre ms": milliseconds, "x fp32": ratio}}}}


def test_only_ratios_are_compared(compare):
    assert compare.worse(results(2.0, milliseconds=9.0), results(2.0)) == []


def test_a_fallen_ratio_is_reported(compare):
    assert compare.worse(results(1.0), results(2.0)) == [("add / x fp32", 2.0, 1.0)]
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
