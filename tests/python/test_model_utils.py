# SPDX-License-Identifier: Apache-2.0
"""Moving modules to the card: weights of Linear, shared parameters, dtypes."""

import copy

import pytest
import torch
from torch import nn
from torch_spyre._C import SpyreTensorLayout
from torch_spyre.model_utils import load_model_to_spyre, patch_module_to_for_spyre

F16 = torch.float16


def exact_(module):
    """Gives all parameters values that every format of the card holds."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randint(-8, 8, parameter.shape) / 16)
    return module


def layout(tensor):
    found = tensor.device_tensor_layout()
    return found.device_size, found.stride_map


def by_rows(*shape, dtype=F16):
    """The layout with the stick along dim 0."""
    wanted = SpyreTensorLayout(list(shape), [shape[1], 1], dtype, [1, 0])
    return wanted.device_size, wanted.stride_map


def by_default(*shape, dtype=F16):
    wanted = SpyreTensorLayout(list(shape), dtype)
    return wanted.device_size, wanted.stride_map


class Tied(nn.Module):
    """An embedding that is the head as well, and one weight in two layers."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 64)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.head = nn.Linear(64, 100, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.second(self.first(self.embedding(ids))))


@pytest.fixture
def patched(monkeypatch):
    """`Module.to` as patch_module_to_for_spyre() leaves it, in one test."""
    monkeypatch.setattr(nn.Module, "to", nn.Module.to)
    patch_module_to_for_spyre()


@pytest.mark.parametrize("move", [lambda m: m.to("spyre"), load_model_to_spyre])
def test_weights_of_linear_have_their_sticks_along_the_outputs(move, patched):
    model = exact_(nn.Sequential(nn.Linear(70, 130), nn.LayerNorm(130))).half()
    values = {name: value.clone() for name, value in model.state_dict().items()}
    assert move(model) is model
    assert layout(model[0].weight) == by_rows(130, 70) != by_default(130, 70)
    assert layout(model[0].bias) == by_default(130)
    assert layout(model[1].weight) == by_default(130)
    weight = model[0].weight
    assert (weight.shape, weight.stride(), weight.requires_grad) == ((130, 70), (70, 1), True)
    for name, value in model.state_dict().items():
        assert torch.equal(value.cpu(), values[name])


def test_moving_twice_changes_nothing(patched):
    model = exact_(nn.Linear(64, 128)).half().to("spyre")
    before = model.weight
    pointer = before.data_ptr()
    assert model.to("spyre").weight is before
    assert load_model_to_spyre(model).weight is before and before.data_ptr() == pointer
    to = nn.Module.to
    patch_module_to_for_spyre()
    assert nn.Module.to is to and to._spyre_patched


def test_module_to_is_pytorch_s_own():
    assert not hasattr(nn.Module.to, "_spyre_patched")
    model = nn.Linear(64, 128).half()
    weight = model.weight
    assert model.to("spyre").weight is weight
    assert layout(weight) == by_default(128, 64)


def test_a_layout_that_is_there_already_is_kept():
    model = nn.Linear(64, 128, device="spyre", dtype=F16)
    model.to("spyre")
    assert layout(model.weight) == by_default(128, 64)


def test_dtypes_are_checked_and_kept(patched):
    model = nn.Linear(64, 32)
    with pytest.raises(ValueError, match="no format for torch.float64"):
        load_model_to_spyre(model, torch.float64)
    with pytest.raises(ValueError, match="no format for torch.complex64"):
        load_model_to_spyre(model, torch.complex64)
    assert model.weight.device.type == "cpu"
    with pytest.raises(TypeError, match="floating point"):
        model.to("spyre", torch.int32)
    model.register_buffer("count", torch.tensor([3]))
    model.to("spyre")
    assert layout(model.weight) == by_rows(32, 64, dtype=torch.float32)
    model.to("spyre", F16)
    assert (model.weight.dtype, model.count.dtype) == (F16, torch.int64)
    assert layout(model.weight) == by_rows(32, 64)
    assert model.count.tolist() == [3]


def test_shared_parameters_stay_shared_and_right(patched):
    model = exact_(Tied()).half().eval()
    ids = torch.randint(0, 100, (2, 16), dtype=torch.int32)
    with torch.no_grad():
        expected = model(ids)
        model.to("spyre")
        assert model.head.weight is model.embedding.weight
        assert model.first.weight is model.second.weight
        assert layout(model.head.weight) == by_default(100, 64)
        assert layout(model.first.weight) == by_rows(64, 64)
        for run in (model, torch.compile(model)):
            result = run(ids.to("spyre")).cpu()
            assert torch.allclose(result, expected, atol=0.03, rtol=0.01)
    model.cpu()
    assert model.first.weight.device.type == "cpu"


def test_views_and_updates_of_a_weight(patched):
    host = exact_(nn.Linear(96, 160)).half()
    card = copy.deepcopy(host).to("spyre")
    assert torch.equal(card.weight.t().cpu(), host.weight.t())
    assert torch.equal(card.weight[5:70, 3].cpu(), host.weight[5:70, 3])
    x = torch.randint(-4, 4, (33, 96)).to(F16)
    with torch.no_grad():
        for model in (host, card):
            model.weight.mul_(2)
            model.weight[7:9].zero_()
        assert torch.equal(card.weight.cpu(), host.weight)
        assert layout(card.weight) == by_rows(160, 96)
        assert torch.allclose(card(x.to("spyre")).cpu(), host(x), rtol=0.002)
        card.load_state_dict(exact_(nn.Linear(96, 160)).half().state_dict())
        assert layout(card.weight) == by_rows(160, 96)
        host.load_state_dict(card.state_dict())
    assert torch.equal(card.weight.cpu(), host.weight)


def test_no_weight_is_restickified():
    import torch_spyre

    mlp = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64)).half().eval()
    x = torch.randn(32, 128).half().to("spyre")
    with torch.no_grad():
        torch.compile(mlp.to("spyre"))(x)
    names = [k["name"] for k in torch_spyre.last_report().counters]
    assert sum("batchmatmul" in name for name in names) == 2
    assert not [name for name in names if "stick" in name.lower()]


def test_a_module_with_its_own_apply_is_asked():
    class Frozen(nn.Linear):
        def _apply(self, fn, recurse=True):
            return self

    model = nn.Sequential(Frozen(64, 64), nn.Linear(64, 64)).half().to("spyre")
    assert model[0].weight.device.type == "cpu"
    assert model[1].weight.device.type == "spyre"


def test_meta_modules_have_nothing_to_move():
    with pytest.raises(NotImplementedError, match="meta"):
        nn.Linear(64, 64, device="meta").to("spyre")


@pytest.mark.host("aten.fill_", "aten.addmm")  # float64
def test_modules_of_a_dtype_that_is_only_stored():
    model = nn.Linear(6, 4).double()
    weight, expected = model.weight, model(torch.ones(3, 6, dtype=torch.float64))
    assert model.to("spyre").weight is weight and weight.device.type == "spyre"
    result = model(torch.ones(3, 6, dtype=torch.float64, device="spyre"))
    assert result.dtype == torch.float64 and result.cpu().allclose(expected)
    assert nn.Linear(6, 4).to("spyre", torch.float64).weight.dtype == torch.float64


# ---- parameters stay the objects that they are


def optimizers(parameters):
    parameters = list(parameters)
    return [
        torch.optim.SGD(parameters, lr=0.5),
        torch.optim.Adam(parameters, lr=0.1),
        torch.optim.AdamW(parameters, lr=0.1, foreach=True),
    ]


@pytest.mark.host("aten.addmm", "aten.mm")  # float32 products
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("moves", ["before", "after"])
def test_an_optimizer_trains_the_model_that_is_moved(which, moves):
    """Made before or after the move: the same steps as on the CPU."""
    host = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Linear(5, 2))
    card = copy.deepcopy(host)
    expected, other = optimizers(host.parameters())[which], None
    if moves == "after":
        other = optimizers(card.parameters())[which]
    parameters = list(card.parameters())
    card.to("spyre")
    assert all(a is b for a, b in zip(parameters, card.parameters(), strict=True))
    other = other or optimizers(card.parameters())[which]
    x = torch.randn(7, 6)
    for _ in range(3):
        for model, optimizer, data in ((host, expected, x), (card, other, x.to("spyre"))):
            optimizer.zero_grad()
            model(data).square().sum().backward()
            optimizer.step()
    for a, b in zip(host.parameters(), card.parameters(), strict=True):
        torch.testing.assert_close(b.detach().cpu(), a.detach(), atol=2e-3, rtol=2e-3)


@pytest.mark.host("aten.addmm", "aten.mm", "aten.embedding_dense_backward")
def test_gradients_hooks_and_shared_parameters_move_along():
    model = Tied()
    seen = []
    head = model.head.weight
    head.register_hook(lambda grad: seen.append(grad.device.type))
    model(torch.randint(0, 100, (2, 16))).sum().backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.to("spyre")
    assert head is model.embedding.weight is model.head.weight
    assert model.first.weight is model.second.weight
    for name, parameter in model.named_parameters():
        assert parameter.grad.device.type == "spyre"
        assert parameter.grad.cpu().equal(grads[name])
    model.zero_grad()
    model(torch.randint(0, 100, (2, 16), dtype=torch.int32).to("spyre")).sum().backward()
    assert seen == ["cpu", "spyre"] and head.grad.device.type == "spyre"
    model.cpu()
    assert head is model.head.weight and head.device.type == head.grad.device.type == "cpu"


@pytest.mark.host("aten.addmm", "aten._weight_norm_interface")
def test_parametrizations_and_buffers():
    model = nn.utils.parametrizations.weight_norm(nn.Linear(6, 4))
    nn.utils.parametrize.register_parametrization(model, "bias", nn.Softplus())
    model.register_buffer("scale", torch.full((), 2.0))
    originals = list(model.parameters())
    x = torch.randn(3, 6)
    expected = model(x) * model.scale
    model.to("spyre")
    assert all(a is b for a, b in zip(originals, model.parameters(), strict=True))
    result = model(x.to("spyre")) * model.scale
    torch.testing.assert_close(result.detach().cpu(), expected.detach(), atol=1e-4, rtol=1e-4)


@pytest.mark.host("aten.addmm")
def test_scripted_modules_move(tmp_path):
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    torch.jit.save(torch.jit.script(model), tmp_path / "model.pt")
    x = torch.randn(3, 6)
    for load in (
        lambda: torch.jit.load(tmp_path / "model.pt").to("spyre"),
        lambda: torch.jit.load(tmp_path / "model.pt", map_location="spyre"),
    ):
        moved = load()
        assert next(moved.parameters()).device.type == "spyre"
        result = moved(x.to("spyre")).detach().cpu()
        torch.testing.assert_close(result, model(x).detach(), atol=1e-4, rtol=1e-4)


def test_contents_of_other_kinds_are_not_taken_over():
    parameter = nn.Parameter(torch.zeros(3))
    parameter.data = torch.ones(3, device="spyre")
    assert parameter.device.type == "spyre" and parameter.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        parameter.data = torch.ones(3, device="meta")
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        parameter.data = torch.ones(3).to_sparse()
