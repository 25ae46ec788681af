# SPDX-License-Identifier: Apache-2.0
"""torch.spyre.numerics: operators of a block beside float64."""

import json

import pytest
import torch


def held(*sizes):
    return torch.randn(*sizes).half().to("spyre")


def test_rows_have_the_errors_of_their_operators():
    x = (torch.arange(1, 129) / 64).half().to("spyre")
    with torch.spyre.numerics() as found:
        y = x.exp()
        (y + x).sum()
    exp = next(row for row in found.rows if row.op == "aten.exp.default")
    exact = x.cpu().double().exp()
    error = (y.cpu().double() - exact).abs().max().item()
    assert exp.max_error == pytest.approx(error)
    assert exp.relative == pytest.approx(error / exact.max().item())
    assert 0 < exp.ulp <= 1 and 0 < exp.conversion <= exp.relative
    assert exp.line.startswith("test_numerics.py:") and exp.calls == 1 and exp.dtype == "float16"
    assert {row.op for row in found.rows} == {
        "aten.exp.default", "aten.add.Tensor", "aten.sum.default",
    }  # fmt: skip
    assert found.first is None


def test_the_first_beyond_the_bound_and_the_forms():
    x = held(4, 64)
    with torch.spyre.numerics(bound=1e-6) as found:
        for _ in range(3):
            x.sigmoid().tanh()
    assert found.first is not None and found.first.op == "aten.sigmoid.default"
    assert {row.calls for row in found.rows} == {3}
    told = json.loads(found.json())
    assert told["bound"] == 1e-6 and told["first"]["op"] == "aten.sigmoid.default"
    assert len(told["rows"]) == 2 and "first above 1e-06: aten.sigmoid.default" in str(found)


def test_a_folder_takes_text_and_json(tmp_path):
    x = held(4, 64)
    with torch.spyre.numerics() as found:
        x.exp()
    folder = tmp_path / "new" / "folder"
    found.save(folder)
    assert (folder / "numerics.txt").read_text() == f"{found}\n"
    assert json.loads((folder / "numerics.json").read_text()) == json.loads(found.json())


def test_saturation_and_nan_are_counted():
    x = torch.tensor([0.0, 1.0, -1.0, 4.0]).half().to("spyre")
    with torch.spyre.numerics() as found:
        x.log()
        x * 60000 * 60000
    log = next(row for row in found.rows if row.op == "aten.log.default")
    assert (log.nans, log.saturated) == (1, 0)


def test_compiled_functions_modules_and_operands_that_are_written():
    layer = torch.nn.Linear(64, 32).half().to("spyre")
    compiled = torch.compile(lambda x: torch.relu(layer(x)))
    x = held(5, 64)
    with torch.spyre.numerics() as found, torch.no_grad():
        y = compiled(x)
        y.add_(1)
    assert {row.op for row in found.rows} == {
        "aten.addmm.default", "aten.relu.default", "aten.add_.Tensor",
    }  # fmt: skip
    assert found.first is None and max(row.relative for row in found.rows) < 1e-2


def test_a_wrong_bound():
    with pytest.raises(ValueError, match="bound: 0 is not positive"):
        torch.spyre.numerics(0)
