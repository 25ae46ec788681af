# SPDX-License-Identifier: Apache-2.0
"""What a model should return, and how far from it fp16 may be.

The reference is PyTorch on the CPU in float32, on the weights and inputs that the card holds. How
far a result of the card may be off depends on the model, not on the card: rounding every
intermediate result by itself, independently, moves the result by some amount, the *condition*. It
is measured, by the reference with each module's result multiplied by 1 + e, |e| <= 2**-10, which is
what one rounding to the card's fp16 (9 bits of fraction) may do. A result is right when its error
is within `SLACK` times that. In float32 a module's sums are rounded as often as the result.
"""

from __future__ import annotations

import dataclasses

import torch

UNIT = 2.0**-10  # unit roundoff of the card's fp16, SEN169: docs/tensor.md
UNITS = {torch.float16: UNIT, torch.float32: 2.0**-22}  # of chains of sums, four roundings
SLACK = 3.0  # modules hold several operations; attention and residual sums are not modules
WORST = 0.2  # a condition above this says nothing: the family wants other sizes or weights
_DRAWS = 2  # of the errors; the larger effect counts


def first_tensor(output) -> torch.Tensor:
    """The main result of a model: `logits`, or the first floating tensor, as float32 on the CPU."""
    values = output.values() if isinstance(output, dict) else [output]
    logits = getattr(output, "logits", None)
    if logits is not None:
        values = [logits]
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() > 0:
            return value
    raise TypeError(f"{type(output).__name__}: no floating tensor among the results")


@dataclasses.dataclass
class Accuracy:
    """A result beside the reference."""

    cosine: float  # of both, flattened
    error: float  # root mean square of the difference over that of the reference
    bound: float  # what the error may be
    largest: float  # the largest error of one element

    @property
    def holds(self) -> bool:
        return self.error <= self.bound


def compare(
    actual: torch.Tensor, expected: torch.Tensor, condition: float, unit: float = UNIT
) -> Accuracy:
    """`actual` of the card, `expected` float32; `condition` is the relative effect of rounding."""
    actual, expected = actual.detach().cpu().float().flatten(), expected.detach().float().flatten()
    if actual.shape != expected.shape:
        raise AssertionError(f"{actual.numel()} elements, expected {expected.numel()}")
    scale = expected.double().pow(2).mean().sqrt().clamp_min(1e-30)
    difference = (actual - expected).double()
    cosine = torch.nn.functional.cosine_similarity(actual.double(), expected.double(), dim=0)
    return Accuracy(
        cosine=cosine.item(),
        error=(difference.pow(2).mean().sqrt() / scale).item(),
        bound=SLACK * condition + 2 * unit,
        largest=difference.abs().max().item(),
    )


class _Rounding:
    """Errors of rounding on the results of a model's innermost modules, forward and backward."""

    def __init__(self, seed: int, unit: float):
        self.unit = unit
        self.random = torch.Generator().manual_seed(seed)

    def __call__(self, _module, _inputs, output):
        if not isinstance(output, torch.Tensor) or not output.is_floating_point():
            return None
        noise = torch.rand(output.shape, generator=self.random) * 2 - 1
        return output * (1 + self.unit * noise)


def condition(model: torch.nn.Module, run, unit: float = UNIT) -> float:
    """The relative effect of rounding (root mean square) on the float32 tensor of run()."""
    exact = run().detach()
    scale = exact.double().pow(2).mean().sqrt().clamp_min(1e-30)
    effects = []
    for seed in range(_DRAWS):
        rounding = _Rounding(seed, unit)
        leaves = [m for m in model.modules() if not list(m.children())]
        hooks = [leaf.register_forward_hook(rounding) for leaf in leaves]
        try:
            effects.append((run().detach() - exact).double().pow(2).mean().sqrt() / scale)
        finally:
            for hook in hooks:
                hook.remove()
    return max(effects).item()
