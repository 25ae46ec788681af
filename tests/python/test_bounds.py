# SPDX-License-Identifier: Apache-2.0
"""What a process keeps is bounded, however many graphs, shapes and numbers it sees."""

import pytest
import torch
import torch_spyre
from torch_spyre import config
from torch_spyre.report import reports


def half(*sizes):
    return torch.randn(*sizes).half().to("spyre")


@pytest.fixture
def fresh_graphs():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_reports_are_bounded_by_bytes(fresh_graphs):
    bound = 20_000
    graph = torch.compile(lambda x: torch.relu(x) + 1, dynamic=False)
    with config.patch(report_bytes=bound):
        graph(half(1, 64))
        most = 0
        for rows in range(2, 9):
            torch._dynamo.reset()
            graph(half(rows, 64))
            most = max(most, len(torch_spyre.compile_reports()))
            assert 0 < reports.bytes <= bound
        assert most == len(torch_spyre.compile_reports()) < 7
    assert torch_spyre.last_report().card_segments == 1


def test_the_last_report_stays(fresh_graphs):
    with config.patch(report_bytes=0):
        torch.compile(lambda x: torch.relu(x) + 2)(half(3, 64))
    assert len(torch_spyre.compile_reports()) == 1
    assert torch_spyre.last_report().card_segments == 1
