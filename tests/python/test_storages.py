# SPDX-License-Identifier: Apache-2.0
"""Storages: sizes, resizing, tensors set on them, other dtypes, ways out to other libraries."""

import copy
import math
from random import Random

import numpy
import pytest
import torch

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
          torch.float8_e4m3fn]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bytes_and_values_are_the_hosts(dtype):
    host = torch.tensor([1, 0, 1, 1, 0, 1]).to(dtype)
    card = host.to("spyre")
    assert card.untyped_storage().nbytes() == host.untyped_storage().nbytes()
    assert card.tolist() == host.tolist() and card[2].item() == host[2].item()
    assert type(card[2].item()) is type(host[2].item())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.float64])
def test_resizing(dtype):
    card = torch.arange(6).to(dtype).to("spyre")
    storage = card.untyped_storage()
    storage.resize_(8 * card.element_size())
    assert storage.nbytes() == 8 * card.element_size()
    assert card.tolist() == [0, 1, 2, 3, 4, 5]
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(6 * card.element_size())
    assert card.copy_(torch.ones(6)).tolist() == [1] * 6


def _random_view(random, t):
    for _ in range(random.randint(0, 2)):
        dim = random.randrange(t.dim())
        begin = random.randint(0, t.shape[dim])
        t = t.narrow(dim, begin, random.randint(0, t.shape[dim] - begin))
        t = t.transpose(0, -1) if random.random() < 0.5 else t
    return t


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_resized_views_stay_on_their_storage(dtype):
    """Other tensors over the storage see what is written, behind its old end as well."""
    for seed in range(8):
        seen = []
        for device in ("cpu", "spyre"):
            random = Random(seed)
            shape = [random.choice([1, 3, 8, 70]) for _ in range(random.randint(1, 3))]
            base = torch.arange(math.prod(shape)).remainder(100).to(dtype).view(shape).to(device)
            view = _random_view(random, base)
            for _ in range(2):
                size = [random.choice([0, 2, 7, 64]) for _ in range(random.randint(1, 3))]
                before = base.untyped_storage().nbytes() // base.element_size()
                view.resize_(size)
                added = base.untyped_storage().nbytes() // base.element_size() - before
                place = (base.untyped_storage(), before, (added,), (1,))
                torch.zeros(0, dtype=dtype, device=device).set_(*place).zero_()
                seen_now = [view.shape, view.stride(), view.storage_offset(), view.tolist()]
                view.fill_(1)
                seen.append([*seen_now, base.tolist()])
        assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


def test_an_empty_view_as_a_result():
    """As PyTorch's own fftfreq writes its negative half."""
    base = torch.arange(5.0, device="spyre")
    torch.arange(-2, 0, out=base[3:3])
    assert base.tolist() == [0, 1, 2, -2, -1]
    assert torch.fft.fftfreq(5, device="spyre").cpu().equal(torch.fft.fftfreq(5))


def test_tensors_set_on_a_storage():
    card = torch.arange(6.0).to("spyre")
    other = torch.zeros(0, device="spyre").set_(card.untyped_storage(), 2, (2, 2), (2, 1))
    other.mul_(10)
    assert card.tolist() == [0, 1, 20, 30, 40, 50]
    assert card.view(torch.int32)[1].item() == 0x3F800000
    assert card.view(torch.float64).shape == (3,) and card.view(torch.uint8).shape == (24,)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float16, torch.bool], ids=str)
def test_a_part_of_a_storage(dtype):
    host = torch.tensor([-6, 2, 3, 4, -5, 7]).to(dtype)
    card, size = host.to("spyre"), host.element_size()
    part = card.untyped_storage()[2 * size : 5 * size]
    assert part.tolist() == host.untyped_storage()[2 * size : 5 * size].tolist()
    assert part.clone().tolist() == part.cpu().tolist() == part.tolist()
    values = torch.empty(0, dtype=dtype, device="spyre").set_(part, 0, (3,), (1,))
    assert values.cpu().equal(host[2:5]) and values[1:].cpu().equal(host[3:5])
    values.fill_(1)
    host[2:5] = 1
    assert card.cpu().equal(host)


def test_a_part_of_a_storage_holds_whole_elements():
    part = torch.zeros(3, device="spyre").untyped_storage()[2:6]
    with pytest.raises(RuntimeError, match="from byte 2 on holds no elements of 4 bytes"):
        torch.empty(0, device="spyre").set_(part, 0, (1,), (1,)).cpu()


def test_tensors_of_one_storage_are_set_to_each_other():
    x = torch.zeros(2, 3, device="spyre")
    same = torch.empty(0, device="spyre").set_(x)
    assert x.is_set_to(same) and same.is_set_to(x)
    assert not any(x.is_set_to(y) for y in (x.clone(), x.view(3, 2), x[1:], x.t()))


def test_ways_from_and_to_other_libraries():
    bytes_ = torch.frombuffer(bytearray(b"\1\2\3"), dtype=torch.uint8)
    assert bytes_.to("spyre").tolist() == [1, 2, 3]
    assert torch.from_dlpack(numpy.arange(3.0)).to("spyre").tolist() == [0, 1, 2]
    card = torch.ones(3, device="spyre")
    for convert in (lambda: card.numpy(), lambda: numpy.asarray(card)):
        with pytest.raises(TypeError, match="can't convert spyre:0 device type tensor to numpy"):
            convert()
    for consume in (torch.from_dlpack, numpy.from_dlpack):
        with pytest.raises((ValueError, RuntimeError), match="Unknown device|Unsupported device"):
            consume(card)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float16, torch.float32, torch.int64])
def test_sparse_tensors_are_held(dtype, tmp_path):
    dense = (torch.arange(12).reshape(3, 4) % 3).to(dtype)
    sparse = dense.to_sparse()
    module = torch.nn.Module()
    module.register_buffer("heads", sparse)
    held = module.to("spyre").heads
    torch.save(held, tmp_path / "sparse.pt")
    loaded = torch.load(tmp_path / "sparse.pt")
    for card in (held, held.clone(), copy.deepcopy(held), loaded):
        assert card.device.type == "spyre" and card.is_sparse and card.is_coalesced()
        assert torch.equal(card.indices().cpu(), sparse.indices())
        assert torch.equal(card.cpu().to_dense(), dense)
        if dtype.is_floating_point:
            assert torch.equal(card.to_dense().cpu(), dense)


def test_sparse_elements_that_repeat_are_summed():
    sparse = torch.sparse_coo_tensor([[0, 0, 1], [2, 2, 0]], [1.0, 2.0, 4.0], (2, 3))
    assert torch.equal(sparse.to("spyre").to_dense().cpu(), sparse.to_dense())


def _swap(x, y):
    x.data, y.data = y.data, x.data


REPLACED = {
    "by an argument's": lambda x, y: setattr(x, "data", y),
    "by what is computed": lambda x, y: setattr(x, "data", y * 2),
    "by a part's": lambda x, y: setattr(x, "data", y[1:]),
    "swapped": _swap,
}


@pytest.mark.parametrize("name", REPLACED)
def test_compiled_code_replaces_the_storage_of_an_argument(name):
    def run(x, y):
        REPLACED[name](x, y)
        return x + 1

    torch._dynamo.reset()
    compiled = torch.compile(run)
    host = torch.zeros(4), torch.arange(1.0, 5)
    card = [t.to("spyre") for t in host]
    for _ in range(2):
        result, expected = compiled(*card), run(*host)
        for got, wanted in zip((result, *card), (expected, *host), strict=True):
            assert torch.equal(got.cpu(), wanted)
    shared = {t.untyped_storage().data_ptr() for t in host}
    assert len({t.untyped_storage().data_ptr() for t in card}) == len(shared)


def test_a_compiled_forward_pass_replaces_a_parameter():
    torch._dynamo.reset()
    layer, weight = torch.nn.Linear(4, 4).half().to("spyre"), torch.eye(4).half().to("spyre")

    def step(x):
        layer.weight.data = weight
        return layer(x).sum()

    torch.compile(step)(torch.ones(2, 4, device="spyre", dtype=torch.half)).backward()
    assert torch.equal(layer.weight.detach().cpu(), torch.eye(4).half())
    assert layer.weight.grad.cpu().eq(2).all()


def test_compiled_code_resizes_the_storage_of_an_argument():
    """As a sharded parameter is gathered, used and given up."""

    def fill(x, y):
        x.untyped_storage().resize_(y.nbytes)
        x.copy_(y)
        return x * 2

    torch._dynamo.reset()
    x, y = torch.ones(4, device="spyre"), torch.arange(4.0, device="spyre")
    with torch.no_grad():
        torch.compile(lambda x: x.untyped_storage().resize_(0) and None)(x)
        assert x.untyped_storage().size() == 0
        doubled = torch.compile(fill)(x, y)
    assert torch.equal(x.cpu(), y.cpu()) and torch.equal(doubled.cpu(), y.cpu() * 2)
