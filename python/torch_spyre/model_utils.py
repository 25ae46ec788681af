# SPDX-License-Identifier: Apache-2.0
"""Modules on their way to the card.

`Linear` multiplies by its weight transposed, and a matmul wants its second operand with the sticks
along the columns: along `out_features`. Weights of `Linear` get that layout when they move; with
the default one every launch would restickify them. Shapes, strides and values are what they are
on the host.

A parameter that another kind of module owns as well (an embedding tied to the head) keeps the
default layout, because a gather wants whole rows in sticks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from . import _C
from ._pytorch import patches
from ._pytorch.dispatch import parameters_of
from .constants import DEVICE_NAME

Place = tuple[nn.Module, str]  # a module and the name of one of its parameters


def _owners(model: nn.Module) -> dict[int, list[Place]]:
    """Every place of every parameter, by the identity of the parameter."""
    places = defaultdict(list)
    for module in model.modules():
        for name, parameter in parameters_of(module).items():
            if parameter is not None:
                places[id(parameter)].append((module, name))
    return places


def _only_multiplied(places: Sequence[Place]) -> bool:
    linear = all(isinstance(m, nn.Linear) and n == "weight" for m, n in places)
    return linear and any(parameters_of(m)[n].dim() == 2 for m, n in places)


def _check_dtype(dtype: torch.dtype | None) -> None:
    if dtype is not None and _C.get_device_dtype(dtype) == _C.DataFormats.INVALID:
        raise ValueError(f"the card has no format for {dtype}")


def move_weight(
    weight: torch.Tensor, device: torch.device, dtype: torch.dtype | None
) -> torch.Tensor:
    """A weight [rows, columns] on the card, the stick along its rows."""
    from .compile.weight_layouts import by_rows
    from .device import c_names

    dtype = dtype or weight.dtype
    layout = by_rows(weight.shape, dtype)
    return c_names.empty_with_layout(weight.shape, layout, dtype, device).copy_(weight)


def _move(
    model: nn.Module, device: torch.device, dtype: torch.dtype | None, non_blocking: bool
) -> nn.Module:
    places = _owners(model)
    moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # with the source, so that ids last

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in moved:
            wanted = dtype if tensor.is_floating_point() else None
            stays = tensor.device == device and wanted in (None, tensor.dtype)
            plain = type(tensor) in (torch.Tensor, nn.Parameter) and not tensor.is_meta
            held = _C.get_device_dtype(wanted or tensor.dtype) != _C.DataFormats.INVALID
            multiplied = _only_multiplied(places.get(id(tensor), []))
            if not stays and plain and held and multiplied:
                result = move_weight(tensor, device, wanted)
            else:
                result = tensor.to(device, wanted, non_blocking)
            moved[id(tensor)] = (tensor, result)
        return moved[id(tensor)][1]

    before = {key: [parameters_of(m)[n] for m, n in shared] for key, shared in places.items()}
    model._apply(convert)
    _tie(places, before)
    return model


def _tie(places: Mapping[int, Sequence[Place]], before: Mapping[int, Sequence[object]]) -> None:
    """Parameters that were one object are one object again."""
    for key, shared in places.items():
        if len(shared) > 1 and all(p is before[key][0] for p in before[key]):
            first_module, first_name = shared[0]
            for module, name in shared[1:]:
                parameters_of(module)[name] = parameters_of(first_module)[first_name]


def load_model_to_spyre(model: nn.Module, dtype: torch.dtype | None = None) -> nn.Module:
    """Moves a module to the current card, floating-point tensors as `dtype` when it is given.
    What is there already stays as it is. ValueError for a dtype without a format on the card."""
    _check_dtype(dtype)
    return _move(model, torch.device(DEVICE_NAME, _C.current_device()), dtype, False)


def _move_to(
    model: nn.Module, device: torch.device, dtype: torch.dtype | None, non_blocking: bool
) -> nn.Module:
    if device.index is None:
        device = torch.device(DEVICE_NAME, _C.current_device())
    return _move(model, device, dtype, non_blocking)


def patch_module_to_for_spyre() -> None:
    """Has `Module.to` lay out weights as load_model_to_spyre() does, in this process. Without it
    `Module.to` is PyTorch's own, and a weight moves into that layout when it is used. A second
    call changes nothing."""
    patches.lay_out_weights_in_module_to(_move_to)
