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


@pytest.mark.parametrize(
    "move", [lambda m: m.to("spyre"), load_model_to_spyre, lambda m: m.spyre()]
)
def test_weights_of_linear_have_their_sticks_along_the_outputs(move):
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


def test_moving_twice_changes_nothing():
    model = exact_(nn.Linear(64, 128)).half().to("spyre")
    before = model.weight
    pointer = before.data_ptr()
    assert model.to("spyre").weight is before
    assert load_model_to_spyre(model).weight is before and before.data_ptr() == pointer
    patched = nn.Module.to
    patch_module_to_for_spyre()
    assert nn.Module.to is patched


def test_a_layout_that_is_there_already_is_kept():
    model = nn.Linear(64, 128, device="spyre", dtype=F16)
    model.to("spyre")
    assert layout(model.weight) == by_default(128, 64)


def test_dtypes_are_checked_and_kept():
    model = nn.Linear(64, 32)
    with pytest.raises(ValueError, match="no format for torch.float64"):
        model.to("spyre", torch.float64)
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


def test_shared_parameters_stay_shared_and_right():
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


def test_views_and_updates_of_a_weight():
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
