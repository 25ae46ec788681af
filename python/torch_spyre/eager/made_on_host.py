# SPDX-License-Identifier: Apache-2.0
"""Tensors that the host makes of numbers and moves to the card: ranges, indices of triangles,
random numbers. PyTorch would compose most of them of an allocation and an operator that writes
there, whose values would make a way to the host and back.

Random numbers are drawn by the CPU's kernels with the state of the card's generator
(random_numbers.py): as many of them, in the order of the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .. import _C, _fallback
from .._pytorch.dispatch import Arguments, Keywords, OpOverload, schema_of
from . import fits_card
from .random_numbers import Generators
from .run_on_cpu import FILLS, overlaps, run_on_cpu

_aten = torch.ops.aten

_NO_OPERAND = "it has no tensor argument"
_RANDOM = "random numbers are drawn on the host"

# By operator the one of the CPU, which takes a generator where numbers are random.
_MAKERS: dict[OpOverload, OpOverload] = {
    **{op: op for op in (
        _aten.arange.default, _aten.arange.start, _aten.arange.start_step, _aten.range.default,
        _aten.range.step, _aten.eye.default, _aten.eye.m, _aten.linspace.default,
        _aten.logspace.default, _aten.tril_indices.default, _aten.triu_indices.default,
        _aten.rand.generator, _aten.randn.generator, _aten.randint.generator,
        _aten.randint.low_generator, _aten.randperm.generator,
    )},
    _aten.rand.default: _aten.rand.generator,
    _aten.randn.default: _aten.randn.generator,
    _aten.randint.default: _aten.randint.generator,
    _aten.randint.low: _aten.randint.low_generator,
    _aten.randperm.default: _aten.randperm.generator,
}  # fmt: skip


def makers() -> Iterator[tuple[OpOverload, Callable[..., Tensor]]]:
    """Operators without operands, and their kernels."""
    for op, of_host in _MAKERS.items():
        yield op, _maker(op, of_host)


def _maker(op: OpOverload, of_host: OpOverload) -> Callable[..., Tensor]:
    is_random = any(argument.name == "generator" for argument in schema_of(of_host).arguments)

    def make(
        *numbers: Any,
        device: torch.device | None = None,
        pin_memory: bool | None = None,
        **options: Any,
    ) -> Tensor:
        began = time.perf_counter()
        if pin_memory:
            raise _C.Unsupported("Pin memory can only be on CPU")
        device = torch.device("spyre", _C.current_device()) if device is None else device
        fits_card.check_host(op, numbers, {**options, "device": device})
        generators = Generators()
        if is_random:
            options["generator"] = generators.drawn_from(options.get("generator"), device)
        made: Tensor = of_host(*numbers, device=torch.device("cpu"), **options)
        generators.write_back()
        result = made.to(device)
        reason = _RANDOM if is_random else _NO_OPERAND
        _fallback.account(op, reason, False, 0, made.nbytes, time.perf_counter() - began)
        return result

    return make


RANDOM_FILLS = FILLS - {_aten.fill_.Scalar}


def fill(op: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """An operator of RANDOM_FILLS, which reads nothing of the tensor that it fills."""
    target = args[0]
    if target.device.type != "spyre" or overlaps(target):
        return run_on_cpu(op, args, kwargs, _RANDOM)
    began = time.perf_counter()
    # With gaps between elements the CPU's kernels may draw in another way.
    values = torch.empty_strided(target.shape, target.stride(), dtype=target.dtype)
    generators = Generators()
    generator = generators.drawn_from(kwargs.get("generator"), target.device)
    op(values, *args[1:], **{**kwargs, "generator": generator})
    generators.write_back()
    target.copy_(values)
    _fallback.account(op, _RANDOM, False, 0, values.nbytes, time.perf_counter() - began)
    return target


def dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """native_dropout on the card with a mask that the host has drawn: results and mask, bool, as
    PyTorch's kernel of the CPU has them (aten/src/ATen/native/Dropout.cpp)."""
    mask = torch.empty_like(x, dtype=torch.bool)
    if x.numel() == 0 or train is False:
        return x.clone(), mask.fill_(True)
    mask.bernoulli_(1 - p)
    return (x * mask).mul_(0.0 if p == 1 else 1 / (1 - p)), mask
