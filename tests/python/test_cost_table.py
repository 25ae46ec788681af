# SPDX-License-Identifier: Apache-2.0
"""config.cost_model (SPYRE_DUMP_COST) prints what the compiler's cost model predicts."""

import pytest
import torch
from torch_spyre import config


@pytest.mark.parametrize("value, prints", [("1", True), ("0", False)])
def test_a_line_an_op_on_request(capfd, value, prints):
    x = torch.randn(64, 256, dtype=torch.float16).to("spyre")
    torch._dynamo.reset()
    with config.patch({"cost_model": value}):
        torch.compile(lambda x: torch.relu(x.exp()) + 3)(x)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert (" exp exp (" in captured.err) is prints
    assert ("reads divide the buffer as its writer does" in captured.err) is prints


def test_the_variable_is_read_at_import(run_python):
    source = "from torch_spyre._inductor import config; print(repr(config.cost_model))"
    assert "'yes'" in run_python(source, SPYRE_DUMP_COST="yes").stdout
