# SPDX-License-Identifier: Apache-2.0
"""SPYRE_DUMP_COST prints what the compiler's cost model predicts."""

import pytest
import torch


@pytest.mark.parametrize("value, prints", [("1", True), ("0", False)])
def test_a_line_an_op_on_request(monkeypatch, capfd, value, prints):
    monkeypatch.setenv("SPYRE_DUMP_COST", value)
    x = torch.randn(64, 256, dtype=torch.float16).to("spyre")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.relu(x.exp()) + 3)
    compiled(x)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert (" exp exp (" in captured.err) is prints
    assert ("reads divide the buffer as its writer does" in captured.err) is prints
