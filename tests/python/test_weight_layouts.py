# SPDX-License-Identifier: Apache-2.0
"""Tensors that are read in another layout than they came in move into it once."""

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from torch import nn

F16 = torch.float16


def small(*shape):
    """Values whose products and sums the card holds exactly."""
    return torch.randint(-4, 5, shape).to(F16) / 4


def layout(tensor):
    found = tensor.device_tensor_layout()
    return found.device_size, found.stride_map


def stick_stride(tensor):
    """Elements from one lane of a stick to the next, in the host's tensor."""
    return tensor.device_tensor_layout().stride_map[-1]


def expected(x, weight):
    return F.linear(x.float(), weight.float()).half()


def test_a_weight_moves_before_it_is_read_transposed_a_second_time():
    weight, x = small(130, 70), small(5, 70)
    card, operand = weight.to("spyre"), x.to("spyre")
    before = layout(card)
    results = [F.linear(operand, card).cpu()]
    assert layout(card) == before
    results += [F.linear(operand, card).cpu() for _ in range(3)]
    assert stick_stride(card) == 70  # along the outputs
    assert all(torch.equal(result, expected(x, weight)) for result in results)
    assert torch.equal(card.cpu(), weight)


@pytest.mark.parametrize(
    "product",
    [
        lambda x, w: x @ w.t(),
        lambda x, w: torch.mm(x, w.t()),
        lambda x, w: torch.addmm(torch.ones(130, device=x.device, dtype=F16), x, w.t()) - 1,
        lambda x, w: torch.einsum("bi,oi->bo", x, w),
    ],
)
def test_any_spelling_of_the_product_will_do(product):
    weight, x = small(130, 70), small(5, 70)
    card, operand = weight.to("spyre"), x.to("spyre")
    for _ in range(3):
        assert torch.equal(product(operand, card).cpu(), expected(x, weight))
    assert stick_stride(card) == 70


def test_an_image_of_few_channels_stays_without_their_padding():
    image, weight = small(2, 3, 48, 48), small(5, 3, 12, 12)
    card, operand = image.to("spyre"), weight.to("spyre")
    convolve = torch.compile(lambda x, w: F.conv2d(x, w, stride=12), dynamic=False)
    before = layout(card)
    for _ in range(3):
        result = convolve(card, operand).cpu().float()
        whole = F.conv2d(image.float(), weight.float(), stride=12)
        torch.testing.assert_close(result, whole, atol=0.05, rtol=0.01)
    assert layout(card) == before


def test_what_is_also_read_as_it_is_stays():
    weight, ids = small(130, 64), torch.tensor([3, 0, 129])
    card, rows = weight.to("spyre"), ids.to("spyre")
    before = layout(card)
    for _ in range(4):
        hidden = F.embedding(rows, card)
        assert torch.equal(F.linear(hidden, card).cpu(), expected(weight[ids], weight))
    assert layout(card) == before


def test_contents_that_are_new_each_time_stay():
    x = small(5, 70)
    card, operand = small(130, 70).to("spyre"), x.to("spyre")
    before = layout(card)
    for _ in range(4):
        weight = small(130, 70)
        card.copy_(weight)
        assert torch.equal(F.linear(operand, card).cpu(), expected(x, weight))
    assert layout(card) == before


def test_a_tensor_moves_once_whatever_is_read_later():
    weight, x, y = small(130, 70), small(5, 70), small(5, 130)
    card, first, second = weight.to("spyre"), x.to("spyre"), y.to("spyre")
    for _ in range(3):
        F.linear(first, card)
    moved = layout(card)
    for _ in range(4):
        assert torch.equal((second @ card).cpu(), (y.float() @ weight.float()).half())
        assert torch.equal(F.linear(first, card).cpu(), expected(x, weight))
    assert layout(card) == moved


def test_a_layout_that_the_user_gave_stays():
    weight, x = small(130, 70), small(5, 70)
    given = torch_spyre.SpyreTensorLayout([130, 70], F16)
    card, other = weight.to("spyre", device_layout=given), weight.to("spyre")
    torch_spyre.set_spyre_tensor_layout(other, given)
    for tensor in (card, other):
        before = layout(tensor)
        for _ in range(4):
            assert torch.equal(F.linear(x.to("spyre"), tensor).cpu(), expected(x, weight))
        assert layout(tensor) == before


def test_a_part_of_a_weight_moves_nothing():
    weight, x = small(192, 70), small(5, 70)
    card, operand = weight.to("spyre"), x.to("spyre")
    before = layout(card)
    for _ in range(4):
        parts = [F.linear(operand, part) for part in card.chunk(3)]
        assert torch.equal(torch.cat(parts, 1).cpu(), expected(x, weight))
    assert layout(card) == before


def test_what_is_written_in_place_afterwards_is_read():
    weight, x = small(130, 70), small(5, 70)
    card, operand = weight.to("spyre"), x.to("spyre")
    for step in range(5):
        assert torch.equal(F.linear(operand, card).cpu(), expected(x, weight + step / 4))
        assert torch.equal(F.linear(operand, card).cpu(), expected(x, weight + step / 4))
        card.add_(0.25)


class Layer(nn.Module):
    """A layer whose weight came to the card by itself, as a checkpoint's does."""

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight.to("spyre"), requires_grad=False)

    def forward(self, x):
        return F.linear(x, self.weight) + 1


def test_a_compiled_graph_moves_parameters_before_its_first_launch():
    weight, x = small(130, 70), small(5, 70)
    layer = Layer(weight)
    compiled = torch.compile(layer)
    for _ in range(2):
        assert torch.equal(compiled(x.to("spyre")).cpu(), expected(x, weight) + 1)
        assert stick_stride(layer.weight) == 70


def test_a_compiled_graph_moves_other_tensors_before_the_second():
    weight, x = small(130, 70), small(5, 70)
    card, operand = weight.to("spyre"), x.to("spyre")
    before = layout(card)
    compiled = torch.compile(lambda x, w: F.linear(x, w) + 1)
    assert torch.equal(compiled(operand, card).cpu(), expected(x, weight) + 1)
    assert layout(card) == before
    for _ in range(2):
        assert torch.equal(compiled(operand, card).cpu(), expected(x, weight) + 1)
        assert stick_stride(card) == 70


def test_training_reads_what_the_optimizer_wrote():
    weight, x = small(64, 70), small(8, 70)
    trained = {}
    for device in ("cpu", "spyre"):
        parameter = nn.Parameter(weight.clone().to(device))
        optimizer = torch.optim.SGD([parameter], lr=2**-6)
        for _ in range(4):
            F.linear(x.to(device), parameter).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        trained[device] = parameter.detach().cpu()
    assert torch.equal(trained["spyre"], trained["cpu"])


class Tied(nn.Module):
    """An embedding that is the head as well, between them a layer."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(130, 64)
        self.inner = nn.Linear(64, 64)
        self.head = nn.Linear(64, 130, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.inner(self.embedding(ids)))


@pytest.mark.parametrize("compiled", [False, True])
def test_modules_come_by_module_to_and_move_when_used(compiled):
    model = Tied().half().eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(small(*parameter.shape) / 4)
    ids = torch.tensor([3, 0, 129], dtype=torch.int32)
    wanted = model.cpu().float()(ids).half()
    model.half().to("spyre")
    before = layout(model.head.weight)
    run = torch.compile(model) if compiled else model
    for _ in range(3):
        torch.testing.assert_close(run(ids.to("spyre")).cpu(), wanted, atol=1e-2, rtol=1e-2)
    assert stick_stride(model.inner.weight) == 64
    assert layout(model.head.weight) == before


def test_a_weight_that_moves_takes_its_memory_once():
    weight, x = small(1024, 2048), small(5, 2048)
    card, operand = weight.to("spyre"), x.to("spyre")
    before = torch.spyre.memory_allocated()
    for _ in range(4):
        F.linear(operand, card)
    torch.spyre.synchronize()
    assert stick_stride(card) == 2048
    assert torch.spyre.memory_allocated() == before


def test_a_graph_of_linears_is_compiled_once():
    """Weights move before the compiler looks at them."""
    model = nn.Sequential(nn.Linear(70, 130), nn.ReLU(), nn.Linear(130, 70)).half().to("spyre")
    before = len(torch_spyre.compile_reports())
    with torch.no_grad():
        torch.compile(model)(small(5, 70).to("spyre"))
    assert len(torch_spyre.compile_reports()) == before + 1
    assert "ReStickify" not in str([c["name"] for c in torch_spyre.last_report().counters])
    assert [stick_stride(model[0].weight), stick_stride(model[2].weight)] == [70, 130]
