# SPDX-License-Identifier: Apache-2.0
"""Tensors without elements, as an expert gets that no token has chosen: PyTorch's sizes, dtypes,
strides and errors, and no way to the host in an equal call."""

import pytest
import torch
import torch_spyre
from torch_spyre.eager.operator_program import Operator

F = torch.nn.functional

# Of e [0, 8], w [8, 8], i [0] int64, u [0, 8] int64, n [0, 5, 0]: expressions.
RESULTS = """
e + 1; e * e; e - w[:0]; e + w[0]; -e; e > 0; e == e; e.exp(); F.gelu(e); F.silu(e) * e; e.float()
e.half(); e @ w; F.linear(e, w); F.linear(e, w, w[0]); torch.addmm(w[0], e, w); e[None] @ w[None]
torch.softmax(e, -1); F.log_softmax(e, -1); F.layer_norm(e, (8,)); F.rms_norm(e, (8,), w[0])
e.sum(1); e.mean(1); e.amax(1); e.max(1).values; e.max(1).indices; e.argmax(1); e.var(1)
e.cumsum(1)
e.sort(1).values; e.topk(2).indices; torch.where(e > 0, e, 0.); e.masked_fill(e > 0, 1.); e.clone()
e.t().contiguous(); e.repeat(2, 3); e.flip(0); e.roll(1, 1); e.clamp(0, 1); torch.cat([e, e])
torch.stack([e, e]); e.reshape(0, 2, 4).permute(2, 0, 1) + 1; F.pad(e, (1, 1)); F.embedding(i, w)
w[i]; w.index_select(0, i); w.gather(0, u); w.take(i); w[:, 3:3] * 2; w[4:4] @ w; n.relu(); n + n
F.one_hot(i, 4); u + 1; u // 2; u.bool(); ~u.bool(); u.to(torch.int32); F.dropout(e, 0.5)
e.new_zeros(0, 3); torch.zeros_like(e); torch.rand_like(e); e.nonzero(); w[w > 9]
w.masked_select(w > 9)
torch.arange(0, device=D); torch.rand(0, 4, device=D); e.unsqueeze(1).expand(0, 5, 8) + 1
torch.cat([e, w]); torch.cat([w, e, w])
torch.nn.functional.scaled_dot_product_attention(*[e[None]] * 3)
e.unbind(1)[0] + 1; e.split(4, 1)[1] * 2; torch.outer(i.half(), w[0])
torch.einsum("ij,jk->ik", e, w)
""".replace("\n", ";").split(";")  # fmt: skip
# As those with elements, of none: the host says what they are.
NEUTRAL = """
e.sum(); e.sum(0); e.prod(0); e.t() @ e; e.all(); e.any(); (e > 0).sum(); e.mean(0)
e.count_nonzero()
w.index_add(0, i, e); w.index_copy(0, i, e); w.scatter(0, u, e); w.index_put((i,), e)
torch.equal(e, e); torch.allclose(e, e); e.tolist(); len(e)
""".replace("\n", ";").split(";")  # fmt: skip
IN_PLACE = """
e.add_(1); e.mul_(e); e.zero_(); e.fill_(2); e.relu_(); e.clamp_(0); e.normal_(); e.copy_(w[:0])
w.index_add_(0, i, e); w.index_add_(0, i, e, alpha=2); w.index_copy_(0, i, e)
w.index_fill_(0, i, 1)
w.scatter_(0, u, e); w.scatter_(0, u, 1.); w.scatter_add_(0, u, e)
w.scatter_reduce_(0, u, e, "amax")
w.index_put_((i,), e); w.index_put_((i,), e, accumulate=True); w[:0].add_(1); w[2:2].mul_(w[3:3])
torch.add(e, 1, out=e)
""".replace("\n", ";").split(";")  # fmt: skip


def given(device):
    torch.manual_seed(1)
    w = torch.randint(-4, 5, (8, 8)).half().to(device)
    i = torch.zeros(0, dtype=torch.int64, device=device)
    return {"e": w[:0].clone(), "w": w, "i": i, "u": i.view(0, 1).expand(0, 8).clone(),
            "n": w.new_zeros(0, 5, 0), "F": F, "torch": torch, "D": device}  # fmt: skip


def value(expression, device):
    return eval(expression, given(device))


def names(text):
    return [name.strip() for name in text if name.strip()]


@pytest.fixture
def asked(monkeypatch):
    """The operators whose Python kernel looks for a program."""
    seen, original = [], Operator.find

    def find(self, args, kwargs):
        seen.append(str(self.op))
        return original(self, args, kwargs)

    monkeypatch.setattr(Operator, "find", find)
    return seen


def assert_alike(actual, expected):
    if not isinstance(expected, torch.Tensor):
        assert actual == expected
        return
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    assert actual.stride() == expected.stride() and actual.device.type == "spyre"
    assert torch.equal(actual.cpu(), expected) or expected.isnan().all()


@pytest.mark.parametrize("expression", names(RESULTS))
def test_results(expression, asked):
    expected = value(expression, "cpu")
    with torch_spyre.fallback("error"):
        for _ in range(2):
            assert_alike(value(expression, "spyre"), expected)
        asked.clear()
        assert_alike(value(expression, "spyre"), expected)
    of_several = {"aten.native_dropout.default", "aten.index.Tensor", "aten.sum.default"}
    assert not set(asked) - of_several, f"{expression} asks Python again"


@pytest.mark.parametrize("expression", names(NEUTRAL))
def test_sums_of_nothing(expression):
    with torch_spyre.fallback("error"):
        for _ in range(2):
            assert_alike(value(expression, "spyre"), value(expression, "cpu"))


@pytest.mark.parametrize("expression", names(IN_PLACE))
def test_in_place(expression, asked):
    expected = given("cpu")
    eval(expression, expected)
    for _ in range(3):
        asked.clear()
        actual = given("spyre")
        with torch_spyre.fallback("error"):
            result = eval(expression, actual)
        assert any(result is actual[name] for name in "ew") or result.numel() == 0
        for name in "ew":
            assert_alike(actual[name], expected[name])
    assert not asked, f"{expression} asks Python again"


WRONG = """
e.max(0); e.argmax(); e.max(); w.index_add(0, i, w); w.index_add_(0, i, w); e + w; e @ w[:3]
e.add_(w); w[i, i.view(1, 0), w]; e.softmax(7); torch.cat([n, w]); w.scatter_(5, u, e)
w.gather(9, u)
F.layer_norm(e, (7,)); F.linear(e, w[:, :3]); e.reshape(3); e.topk(9); w.index_copy_(0, i, w[:2])
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("expression", names(WRONG))
def test_errors_are_pytorchs(expression):
    with pytest.raises(Exception) as expected:
        value(expression, "cpu")
    for _ in range(3):
        with pytest.raises(expected.type):
            value(expression, "spyre")


def test_values_do_not_decide_what_is_kept():
    """An equal call may have other values where sizes depend on them."""
    for number in (0, 3, 0):
        x = torch.zeros(5, 5)
        x.view(-1)[:number] = 1
        card = x.to("spyre")
        assert_alike(card.nonzero(), x.nonzero())
        assert_alike(card[card > 0], x[x > 0])
        assert_alike(torch.repeat_interleave(card.bool().long()[0]),
                     torch.repeat_interleave(x.bool().long()[0]))  # fmt: skip


def test_settings_make_it_known_anew(asked):
    e = torch.zeros(0, 70, dtype=torch.float16, device="spyre")
    for _ in range(2):
        torch.tan(e)
    asked.clear()
    torch.tan(e)
    assert not asked
    torch.spyre.empty_cache()
    assert torch.tan(e).shape == (0, 70)


def test_gradients():
    def gradients(device):
        w = torch.ones(8, 8, dtype=torch.float16, device=device)
        w.requires_grad_()
        (F.gelu(w[:0] @ w).sum() + (w[4:4] * 2).sum() + w.sum()).backward()
        return w.grad

    for _ in range(2):
        assert_alike(gradients("spyre"), gradients("cpu"))
