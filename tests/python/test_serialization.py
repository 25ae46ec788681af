# SPDX-License-Identifier: Apache-2.0
"""Copies, pickles and files of tensors keep the layouts that their storages have on the card."""

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch_spyre._C import SpyreTensorLayout

F16 = torch.float16


def through_file(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return torch.load(file, weights_only=True)


WAYS = {
    "deepcopy": copy.deepcopy,
    "clone": lambda x: x.clone(),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "file": through_file,
    "legacy file": lambda x: through_file(x, _use_new_zipfile_serialization=False),
}


def values(*shape):
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) % 97).to(F16)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2, -1]], ids=str)
def test_layouts_survive(way, order):
    host = values(3, 70, 5)
    layout = SpyreTensorLayout(list(host.shape), list(host.stride()), F16, order)
    card = host.to("spyre", device_layout=layout)
    made = way(card)
    assert made.data_ptr() != card.data_ptr()
    assert made.device_tensor_layout() == layout and made.cpu().equal(host)
    assert made.stride() == card.stride()
    made.add_(1)
    assert card.cpu().equal(host) and made.cpu().equal(host + 1)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_layouts_of_modules_survive(way):
    module = nn.Linear(70, 130).half().to("spyre")
    made = way(module.weight)
    assert made.device_tensor_layout() == module.weight.device_tensor_layout()
    assert made.cpu().equal(module.weight.cpu())
    for tensor in (values(4, 70), values(130), values(70, 4).t(), values(2, 3, 4, 8)):
        card = tensor.to("spyre")
        assert way(card).device_tensor_layout() == card.device_tensor_layout()


def test_a_copy_of_a_whole_module():
    module = nn.Sequential(nn.Linear(70, 130), nn.Linear(130, 4)).half().to("spyre")
    made = copy.deepcopy(module)
    for a, b in zip(module.parameters(), made.parameters(), strict=True):
        assert a.device_tensor_layout() == b.device_tensor_layout() and a is not b
    loaded = nn.Sequential(nn.Linear(70, 130), nn.Linear(130, 4)).half().to("spyre")
    loaded.load_state_dict(through_file(module.state_dict()))
    for a, b in zip(module.parameters(), loaded.parameters(), strict=True):
        assert a.cpu().equal(b.cpu())


@pytest.mark.parametrize("way", [WAYS["file"], WAYS["legacy file"]])
def test_views_share_their_storage_again(way):
    host = values(6, 70)
    layout = SpyreTensorLayout([6, 70], [70, 1], F16, [1, 0])
    card = host.to("spyre", device_layout=layout)
    part, whole = way([card[2:4, 3:], card])
    assert part.cpu().equal(host[2:4, 3:]) and whole.cpu().equal(host)
    assert whole.device_tensor_layout() == layout
    part.zero_()
    assert not whole[2:4, 3:].cpu().any() and whole[:2].cpu().equal(host[:2])


def test_files_of_the_host_get_the_layouts_of_new_tensors():
    file = io.BytesIO()
    host = {"weight": values(130, 70), "bias": values(130)}
    torch.save(host, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True, map_location="spyre")
    for name, tensor in host.items():
        assert loaded[name].device_tensor_layout() == tensor.to("spyre").device_tensor_layout()
        assert loaded[name].cpu().equal(tensor)


_WITHOUT = """
import torch
found = torch.load({path!r}, map_location="cpu", weights_only=True)
sums = {{n: (str(x.device), list(x.shape), float(x.double().sum())) for n, x in found.items()}}
print(sums)
"""


@pytest.mark.host("aten.fill_")
def test_files_load_where_the_package_is_missing(tmp_path):
    module = nn.Linear(70, 130).half().to("spyre")
    state = {**module.state_dict(), "wide": torch.tensor([2**40]).to("spyre"),
             "double": torch.ones(3, dtype=torch.float64, device="spyre")}  # fmt: skip
    path = str(tmp_path / "state.pt")
    torch.save(state, path)
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    found = subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(path=path)],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    expected = {name: ("cpu", list(x.shape), float(x.cpu().double().sum()))
                for name, x in state.items()}  # fmt: skip
    assert found == f"{expected}\n"


def damaged_text(text):
    card = torch.zeros(4, 70, dtype=F16, device="spyre")
    torch._utils.set_tensor_metadata(card, {text: True})
    return card


@pytest.mark.parametrize(
    "text",
    [
        "spyre_layout:",
        "spyre_layout:float17;4,70;70,1;2,4,64;64,70,1;0;0",
        "spyre_layout:float16;4,70;70,1;2,4,64;64,70;0;0",
        "spyre_layout:float16;4,71;71,1;2,4,64;64,71,1;0;0",
        "spyre_layout:float16;4,70;70,1;2,4,64;64,70,1;99;0",
        "spyre_layout:float16;4,70;70,1;2,4,64;64,70,1;0;77",
        "spyre_layout:float16;4,70;70,1;-2,4,64;64,70,1;0;0",
        "spyre_layout:float16;4,70;70,1;9000000000,9000000000,64;64,70,1;0;0",
        "spyre_layout:float16;2,140;0,2;2,4,64;64,70,1;0;0",
        "spyre_layout:float16;4,70;70,1;2,4,64;64,x,1;0;0",
        "spyre_layout:float16;4,70;70,1;2,4,64;64,70,1;0;0;1",
        "spyre_layout:float16;1,1,1,1,1,1,1,1,280;1,1,1,1,1,1,1,1,1;2,4,64;64,70,1;0;0",
    ],
)
def test_damaged_layouts_are_errors(text):
    with pytest.raises((RuntimeError, ValueError)):
        damaged_text(text)


def test_other_metadata_is_passed_over():
    assert not damaged_text("of somewhere else").cpu().any()
