# SPDX-License-Identifier: Apache-2.0
"""spyre_hint(work_div=...): slices of named dims."""

import re

import pytest
import torch
import torch_spyre
from torch_spyre import config
from torch_spyre._inductor import propagate_named_dims as older
from torch_spyre._inductor import spyre_hint
from torch_spyre._inductor.wsr import propagate_named_dims
from torch_spyre._inductor.wsr.propagate_named_dims import declare_tensor_dim, name_tensor_dims

M, K, N = 64, 512, 256


def test_the_older_module_has_the_same_names():
    for name in propagate_named_dims.__all__:
        assert getattr(older, name) is getattr(propagate_named_dims, name)


@pytest.fixture
def operands():
    x = torch.randn(M, K, dtype=torch.float16).to("spyre")
    y = torch.randn(K, N, dtype=torch.float16).to("spyre")
    for name, size in (("M", M), ("K", K), ("N", N)):
        declare_tensor_dim(name, size)
    name_tensor_dims(x, ["M", "K"])
    name_tensor_dims(y, ["K", "N"])
    yield x, y
    propagate_named_dims.reset()


def compiled(hint):
    torch._dynamo.reset()

    def function(x, y):
        with spyre_hint(work_div=hint):
            product = x @ y
        return torch.relu(product)

    return torch.compile(function, fullgraph=True)


def loops(operands, hint, tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    with torch.no_grad():
        result = compiled(hint)(*operands)
    want = torch.relu(operands[0].cpu().float() @ operands[1].cpu().float())
    torch.testing.assert_close(result.cpu().float(), want, atol=0.1, rtol=0.01)
    text = (tmp_path / "segment0.loop").read_text()
    (product,) = [line for line in text.splitlines() if " batchmatmul for" in line]
    extents = dict(re.findall(r"(c\d)<(\d+)", product))
    return {int(extents[v]): int(count) for v, count in re.findall(r"split\((c\d)/(\d+)", product)}


def test_slices_are_taken(operands, tmp_path, monkeypatch):
    assert loops(operands, {"M": 2, "K": 4}, tmp_path, monkeypatch) == {M: 2, K: 4}


def test_hints_can_be_ignored(operands, tmp_path, monkeypatch):
    with config.patch(ignore_work_division_hints=True):
        assert loops(operands, {"M": 2, "K": 4}, tmp_path, monkeypatch) != {M: 2, K: 4}


@pytest.mark.parametrize(
    "hint, rule",
    [({"M": 3}, "does not divide"), ({"M": 16, "K": 4}, "more slices than cores")],
    ids=str,
)
def test_impossible_slices_are_refused(operands, hint, rule):
    with torch.no_grad(), pytest.raises(Exception, match=rule) as raised:
        compiled(hint)(*operands)
    causes = (raised.value, raised.value.__cause__)
    assert any(isinstance(cause, torch_spyre.Unsupported) for cause in causes)


@pytest.mark.parametrize("slices", [0, -1, 2.5, True, "2"])
def test_slices_are_whole_numbers(slices):
    with pytest.raises(torch_spyre.Unsupported, match="whole numbers from 1 on"):
        spyre_hint(work_div={"M": slices})


def test_unknown_dims_are_left_out_with_a_warning(operands, capfd):
    with torch.no_grad():
        compiled({"M": 2, "Rows": 4})(*operands)
    message = capfd.readouterr().err
    assert "work_div Rows=4: no op of the scope moves along Rows" in message
    assert "loops of the segment are named M, " in message and "work_div M" not in message


def test_scopes_that_contradict_each_other_are_refused(operands):
    def function(x, y):
        with spyre_hint(work_div={"M": 2}), spyre_hint(work_div={"M": 4}):
            return x @ y

    with torch.no_grad(), pytest.raises(Exception, match="M=4: a scope around it asks for 2 slic"):
        torch.compile(function)(*operands)


@pytest.mark.parametrize("slices", [{"M": 2, "K": 2}, {"K": 2, "M": 2}], ids=str)
def test_one_reduced_dim_is_divided(operands, slices):
    def function(x, _y):
        with spyre_hint(work_div=slices):
            return x.sum()

    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(Exception, match="second reduced dim beside .=2; one may"):
        torch.compile(function)(*operands)


def test_names_are_checked(operands):
    x = operands[0]
    with pytest.raises(ValueError, match="1 names for a tensor of 2 dims"):
        name_tensor_dims(x, ["M"])
    with pytest.raises(ValueError, match="dim Q of size 64 is not declared: declare_tensor"):
        name_tensor_dims(x, ["Q", None])
    with pytest.raises(ValueError, match="dim K of size 64 is declared with size 512"):
        name_tensor_dims(x, ["K", None])
    with pytest.raises(ValueError, match="no name of a dim"):
        declare_tensor_dim("a,b", 2)
