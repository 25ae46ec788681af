# SPDX-License-Identifier: Apache-2.0
"""The timing model against the published figures: bench/timing.py, family by family."""

import importlib
import os
import sys

import pytest
from command import ROOT


@pytest.fixture(scope="module")
def timing():
    sys.path.insert(0, str(ROOT / "bench"))
    module = importlib.import_module("timing")
    module.CLI = os.environ.get("SPYRE_CLI", module.CLI)
    return module


@pytest.mark.parametrize("family", ["pointwise", "broadcast", "reduction", "transport", "matmul"])
def test_family_is_within_its_target(timing, family):
    rows = timing.rows(family)
    assert len(rows) > 6
    assert timing.rms(rows)[family] <= timing.TARGET_RMS[family]


def test_stages_of_softmax(timing):
    """Traffic as published, times in order, the two that traffic explains within 15 percent."""
    stages = timing.rows("1 core")
    assert [row.scored for row in stages] == [False, False, True, True]
    assert all(0.99 < row.moved < 1.01 for row in stages)
    times = [row.ours_us for row in stages]
    assert times == sorted(times, reverse=True) and len(set(times)) == 4
    assert all(abs(row.error) < 15 for row in stages if row.scored)


def test_published_formulas(timing):
    """Figures that the sources print themselves."""
    size = 4096 * 2048 * 2
    assert round(timing.traffic_us(size, size), 1) == 320.0
    assert round(2 * size / timing.traffic_us(size, size) / 1e3) == 105
    assert timing.row_reduction_rate(512) == 150
    assert round(timing.row_reduction_rate(1 << 20)) == 114
    assert round(timing.matmul_us(2048, 2048, 2048, 4, 8), 2) == 266.25
    assert round(timing.matmul_us(4096, 2048, 1024, 4, 8), 1) == 306.8
