# SPDX-License-Identifier: Apache-2.0
"""torch.spyre.numerics: operators of a block beside float64."""

import json

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from torch.utils._python_dispatch import TorchDispatchMode


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
        wide = x.to(torch.bfloat16) * 2.0**32
    log = next(row for row in found.rows if row.op == "aten.log.default")
    assert (log.nans, log.saturated) == (1, 0)
    products = [row for row in found.rows if row.op == "aten.mul.Tensor"]
    assert wide.isinf().sum() == 1  # 2^34, beyond the card's numbers
    assert {row.dtype: row.saturated for row in products} == {"float16": 1, "bfloat16": 1}
    assert found.first is not None and found.first.op == "aten.mul.Tensor"
    assert ", 1 saturated" in str(found)


def test_values_beyond_float16_are_compared_as_the_card_holds_them():
    x = torch.tensor([200.0, 3.0]).half().to("spyre")
    with torch.spyre.numerics() as found:
        y = (x * x * 4) / 16
    assert y.cpu().tolist() == [10000.0, 2.25]
    assert found.first is None and all(row.saturated == 0 for row in found.rows)
    assert sum(row.calls for row in found.rows) == 3


def row_of(found, op):
    return next(row for row in found.rows if row.op.startswith(f"aten.{op}"))


def test_backward_passes_name_the_line_of_their_operator():
    weight, x = held(64, 8).requires_grad_(), held(3, 64)
    with torch.spyre.numerics() as found:
        y = x @ weight
        y.tanh().sum().backward()
    line = row_of(found, "tanh.").line
    assert row_of(found, "tanh_backward").line == f"backward of {line}"
    assert {row.line for row in found.rows if row.op == "aten.mm.default"} == {
        f"test_numerics.py:{int(line.split(':')[1]) - 1}",
        f"backward of test_numerics.py:{int(line.split(':')[1]) - 1}",
    }
    z = (x @ weight).sum()
    with torch.spyre.numerics() as found:
        z.backward()
    lines = {row.line for row in found.rows}
    assert lines == {"backward pass of test_numerics.py:98", row_of(found, "ones_like").line}


def test_attention_casts_lists_and_nothing_that_has_no_values():
    q = held(1, 2, 9, 64).requires_grad_()
    with torch.spyre.numerics() as found:
        F.scaled_dot_product_attention(q, q, q, is_causal=True).float().pow(2).sum().backward()
        torch._foreach_mul_([q.grad], [3.0])
        torch.add(q.grad, q.grad, out=torch.empty_like(q.grad))
        held(3, 64).float()
        held(3, 64).clone()
    fused = "_scaled_dot_product_fused_attention_overrideable"
    assert {row.op.split(".")[1] for row in found.rows} == {
        fused, f"{fused}_backward", "_to_copy", "pow", "sum", "ones_like", "mul", "add",
        "_foreach_mul_",
    }  # fmt: skip
    assert row_of(found, f"{fused}_backward").calls == 3  # of query, key and value


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        return op(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Passing, torch.spyre.numerics])
def test_operators_that_run_for_the_first_time_in_a_mode_are_the_cards(mode):
    x = held(2, 3, 17 if mode is Passing else 19, 23).requires_grad_()
    target = torch.tensor([0, 1]).to("spyre")
    with torch_spyre.fallback("error"), mode():
        y = F.max_pool2d(F.relu(F.instance_norm(x)), 3, stride=2).flatten(1)
        F.cross_entropy(F.gelu(y), target, label_smoothing=0.1).backward()


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
    for bound in (0, -1.0, float("nan")):
        with pytest.raises(ValueError, match=f"bound: {bound} is not positive"):
            torch.spyre.numerics(bound)
    for bound in (True, "0.1", None):
        with pytest.raises(TypeError, match="is not a number"):
            torch.spyre.numerics(bound)
