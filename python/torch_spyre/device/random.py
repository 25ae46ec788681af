# SPDX-License-Identifier: Apache-2.0
"""`torch.spyre.random`: the generators of the cards, which draw on the host."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .. import _C
from .._pytorch.dynamo import untraced
from .streams import Device, device_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


@untraced
def manual_seed(seed: int) -> None:
    """Seeds the generator of the current card."""
    _C._get_default_generator().manual_seed(int(seed))


@untraced
def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all cards."""
    for card in range(_C.device_count()):
        _C._get_default_generator(card).manual_seed(int(seed))


@untraced
def initial_seed(device: Device = "spyre") -> int:
    """The seed of a card's generator, before any number was drawn."""
    return _C._get_default_generator(device_index(device)).initial_seed()


@untraced
def get_rng_state(device: Device = "spyre") -> torch.Tensor:
    """The state of a card's generator: uint8 [bytes], on the host."""
    return _C._get_default_generator(device_index(device)).get_state()


@untraced
def set_rng_state(new_state: torch.Tensor, device: Device = "spyre") -> None:
    """Sets a card's generator to what get_rng_state() returned: uint8 [bytes], on the host."""
    _C._get_default_generator(device_index(device)).set_state(new_state)


@untraced
def get_rng_state_all() -> list[torch.Tensor]:
    """The state of every card's generator, card 0 first: uint8 [bytes] each, on the host."""
    return [get_rng_state(card) for card in range(_C.device_count())]


@untraced
def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets what get_rng_state_all() returned: uint8 [bytes] each, card 0 first."""
    for card, state in enumerate(new_states):
        set_rng_state(state, card)


@untraced
def seed() -> None:
    """Gives the current card's generator a seed of the system's entropy."""
    _C._get_default_generator().seed()


@untraced
def seed_all() -> None:
    """Gives every card's generator a seed of the system's entropy."""
    for card in range(_C.device_count()):
        _C._get_default_generator(card).seed()
