# SPDX-License-Identifier: Apache-2.0
"""In-place and out= forms on the card take and refuse what they do on the CPU."""

import random
import warnings

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from aten_calls import arguments, on, outcome, overloads
from torch.utils import _pytree as pytree

pytestmark = pytest.mark.host("aten")


def _writes_self(schema) -> bool:
    first = schema.arguments[0] if schema.arguments else None
    return (
        schema.name.endswith("_")
        and first is not None
        and str(first.type) == "Tensor"
        and first.alias_info is not None
        and first.alias_info.is_write
    )


def _same(actual, expected) -> bool:
    """Equal up to the rounding of 16 bits, where NaN is an infinity, too."""
    a, b = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        if not isinstance(y, torch.Tensor):
            continue
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        known = torch.isfinite(y) & torch.isfinite(x) if x.is_floating_point() else y == y
        if not torch.allclose(x[known].double(), y[known].double(), 2e-2, 2e-2):
            return False
        if x.dtype == torch.float32 and not torch.equal(x.isnan(), y.isnan()):
            return False
    return True


IN_PLACE = list(overloads(_writes_self))


@pytest.mark.parametrize("part", range(4))
def test_every_in_place_operator(part):
    """Right and wrong calls of all of them: the same values, sizes and dtype, or the same class of
    error, and no other contents where there is an error."""
    assert len(IN_PLACE) > 200
    for op in IN_PLACE[part::4]:
        for number in range(2):
            r = random.Random(f"{op} {number}")
            made = arguments(r, op)
            if made is None:
                continue
            card = on("spyre", made)
            expected, actual = outcome(op, *made), outcome(op, *card)
            assert actual[0] == expected[0], (op, card, actual, expected)
            if expected[0] == "raises":
                assert actual[1] is expected[1], (op, card, actual, expected)
            elif torch.Tag.nondeterministic_seeded not in op.tags:
                assert _same(actual[1:], expected[1:]), (op, actual, expected)


GROWING = {
    "logical_and_": lambda x, y: x.logical_and_(y),
    "logical_or_": lambda x, y: x.logical_or_(y),
    "logical_xor_": lambda x, y: x.logical_xor_(y),
    "ldexp_": lambda x, y: x.ldexp_(y),
    "addr_": lambda x, y: x.addr_(y, y),
    "add_": lambda x, y: x.add_(y),
}


@pytest.mark.parametrize("name", GROWING)
def test_nothing_grows_in_place(name):
    x = torch.ones(5, 1).half().to("spyre")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"output with shape \[5, 1\]|size mismatch"):
            GROWING[name](x, torch.ones(5).half().to("spyre"))
    assert x.shape == (5, 1) and x.cpu().tolist() == [[1.0]] * 5


def test_addr_in_place_on_the_card():
    x, y, z = (torch.arange(float(n)).half().to("spyre") for n in (12, 3, 4))
    expected = torch.addr(x.cpu().view(3, 4), y.cpu(), z.cpu(), beta=0.5)
    with torch_spyre.fallback("error"):
        assert x.view(3, 4).addr_(y, z, beta=0.5).cpu().equal(expected)
    assert x.cpu().equal(expected.flatten())
    square = torch.ones(3, 3).half().to("spyre")
    with pytest.raises(RuntimeError, match="unsupported operation: some elements"):
        square.addr_(square[0], square[1])


def _integers(*values):
    return torch.tensor(values).to("spyre")


OVERLAPPING = {
    "add": lambda x: torch.add(x[1:], 1, out=x[:-1]),
    "add_": lambda x: x[1:].add_(x[:-1]),
    "expanded": lambda x: x[:1].expand(4).add_(1),
    "gather": lambda x: torch.gather(x, 0, _integers(0, 1, 2, 3), out=x),
    "take": lambda x: torch.take(x, _integers(0, 1, 2, 3), out=x),
    "cat": lambda x: torch.cat([x[:2], x[2:]], out=x),
    "masked_select": lambda x: torch.masked_select(x, x > 0, out=x),
    "kthvalue": lambda x: torch.kthvalue(x, 1, out=(x, _integers(0))),
    "cumsum": lambda x: torch.cumsum(x[1:], 0, out=x[:-1]),
    "index_add_": lambda x: x.index_add_(0, _integers(0, 1, 2, 3), x),
    "put_": lambda x: x.put_(_integers(0, 1, 2, 3), x),
    "index_put_": lambda x: x.index_put_((_integers(0, 1, 2, 3),), x),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_what_is_written_and_read_may_not_overlap(name):
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).to("spyre")
    with pytest.raises(RuntimeError, match="unsupported operation: "):
        OVERLAPPING[name](x)
    assert x.cpu().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_an_index_is_not_written_by_itself():
    places, others = _integers(2, 1, 0), _integers(2, 1, 0)
    for write in (
        lambda: places.put_(places, others),
        lambda: places.index_put_((places,), others),
        lambda: places.index_fill_(0, places, 1),
    ):
        with pytest.raises(RuntimeError, match="unsupported operation: "):
            write()
    assert places.put_(others, others).cpu().tolist() == [0, 1, 2]


def test_a_known_call_on_other_storages_still_looks_for_overlap():
    x, y = (torch.ones(5, dtype=torch.float16).to("spyre") for _ in range(2))
    for _ in range(2):
        x[1:].add_(y[:-1])
    with pytest.raises(RuntimeError, match="unsupported operation: some elements"):
        x[1:].add_(x[:-1])
    assert x.cpu().tolist() == [1.0, 3.0, 3.0, 3.0, 3.0]


def test_whole_overlap_is_in_place():
    x = torch.tensor([1.0, 2.0], dtype=torch.float16).to("spyre")
    with torch_spyre.fallback("error"):
        torch.add(x, x, out=x)
        x.mul_(x.detach())
    assert x.cpu().tolist() == [4.0, 16.0]


def test_out_of_another_shape_is_resized_with_pytorchs_warning():
    x, out = torch.ones(5).half().to("spyre"), torch.ones(3).half().to("spyre")
    with pytest.warns(UserWarning, match=r"resized since it had shape \[3\].* shape \[5\]"):
        torch.add(x, 1, out=out)
    assert out.cpu().tolist() == [2.0] * 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.add(x, 1, out=torch.empty(0, dtype=torch.float16, device="spyre"))


@pytest.mark.parametrize("size", [1, 5, 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gradient_of_logsigmoid(size, dtype):
    x = torch.linspace(-3, 3, size, dtype=dtype)
    card = x.to("spyre").requires_grad_()
    F.logsigmoid(card).sum().backward()
    torch.testing.assert_close(card.grad.cpu(), torch.sigmoid(-x), atol=2e-3, rtol=2e-3)


FUSED = {
    "sgd": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {"amsgrad": True}),
    "adagrad": (torch.optim.Adagrad, {}),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", FUSED)
def test_fused_optimizers_step_every_element(name, dtype):
    optimizer, options = FUSED[name]
    gradient = (torch.arange(70) % 7 + 1) / 4
    results = []
    for device, kind in (("spyre", dtype), ("cpu", torch.float32)):
        p = torch.ones(70, dtype=kind, device=device).requires_grad_()
        fused = {"fused": True} if device == "spyre" else {"foreach": False}
        steps = optimizer([p], lr=0.25, **options, **fused)
        for _ in range(2):
            p.grad = gradient.to(device, kind)
            steps.step()
        results.append(p.detach().cpu().float())
    torch.testing.assert_close(*results, atol=3e-2, rtol=3e-2)


_FOREACH = ["add_", "mul_", "sqrt_", "neg_", "addcmul_", "lerp_", "zero_", "clamp_min_"]


@pytest.mark.parametrize("name", _FOREACH)
def test_foreach_operators_write_every_element(name):
    operands = {"addcmul_": 2, "lerp_": 1, "add_": 1, "mul_": 1, "clamp_min_": 1}.get(name, 0)
    for dtype in (torch.float16, torch.bfloat16):
        made = [[torch.arange(1, 71).to(dtype) / k for _ in range(2)] for k in range(1, 4)]
        lists = made[: operands + 1]
        extra = [0.5] if name == "lerp_" else []
        card = [[t.to("spyre") for t in tensors] for tensors in lists]
        getattr(torch, f"_foreach_{name}")(*card, *extra)
        single = getattr(torch.Tensor, name)
        for i in range(2):
            expected = single(lists[0][i].float(), *[ts[i].float() for ts in lists[1:]], *extra)
            actual = card[0][i].cpu().float()
            torch.testing.assert_close(actual, expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("name", ["native_batch_norm", "batch_norm_update_stats"])
def test_what_operators_write_though_their_schemas_do_not_say_so(name):
    x = torch.randn(4, 3)
    moments = []
    for device in ("cpu", "spyre"):
        mean, variance = torch.zeros(3, device=device), torch.ones(3, device=device)
        if name == "native_batch_norm":
            torch.native_batch_norm(x.to(device), None, None, mean, variance, True, 0.1, 1e-5)
        else:
            torch.batch_norm_update_stats(x.to(device), mean, variance, 0.1)
        moments.append(torch.stack([mean.cpu(), variance.cpu()]))
    assert not torch.equal(moments[0][0], torch.zeros(3))
    torch.testing.assert_close(moments[1], moments[0])


def test_empty_batches_streams_and_padding():
    assert F.group_norm(torch.ones(0, 2).half().to("spyre"), 1).shape == (0, 2)
    stream = torch.spyre.Stream()
    torch.ones(3, device="spyre").record_stream(stream)
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.current_stream() == stream
    torch.accelerator.set_stream(before)
    with pytest.raises(RuntimeError, match="0 elements of rank 1 do not broadcast to 4"):
        torch.ones(4, device="spyre").copy_(torch.ones(0))


def test_an_encoder_with_padding():
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    x = torch.linspace(-1, 1, 160).view(2, 5, 16)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=padding)
        actual = model.to("spyre")(x.to("spyre"), src_key_padding_mask=padding.to("spyre")).cpu()
    torch.testing.assert_close(actual[~padding], expected[~padding], atol=1e-3, rtol=1e-3)


WRONG = {
    "cat": lambda d: torch.cat([torch.ones((), device=d)] * 2),
    "embedding": lambda d: F.embedding(torch.zeros(3, dtype=torch.long, device=d),
                                       torch.ones((), device=d)),
    "narrow_copy": lambda d: torch.narrow_copy(torch.ones(2, 3, 4, device=d), 3, 0, 0),
    "fft": lambda d: torch.fft.fft(torch.ones(3, device=d), dim=4),
    "masked_select": lambda d: torch.masked_select(torch.ones(3, device=d),
                                                   torch.ones(3, device=d)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_have_the_cpus_class(name):
    with pytest.raises(Exception) as expected:
        WRONG[name]("cpu")
    with pytest.raises(expected.type):
        WRONG[name]("spyre")


def test_kernels_behind_a_graph_break_are_not_traced():
    """The device's own Python is none of the program's, which Dynamo would compile by its sizes."""

    def attend(q, k):
        with torch.random.fork_rng(devices=[]):  # ends the graph; what it holds runs as it stands
            torch.manual_seed(0)
            return F.scaled_dot_product_attention(q, k, k)

    torch._dynamo.reset()
    k = torch.randn(2, 4, 6, 8)
    for rows in (3, 5, 7):
        q = torch.randn(2, 4, rows, 8)
        actual = torch.compile(attend)(q.to("spyre"), k.to("spyre"))
        torch.testing.assert_close(actual.cpu(), F.scaled_dot_product_attention(q, k, k))
