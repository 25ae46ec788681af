# SPDX-License-Identifier: Apache-2.0
"""The forms of an operator: each is a function of a sample that gives the results to compare.

A form runs unchanged on the CPU in the dtype, on the CPU in double precision and on the device;
only where its tensors lie differs. Compiled forms take several samples in one graph, since most of
the time of a compilation is PyTorch's own tracing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils import _pytree as pytree

from .samples import Sample

DEVICE = "spyre"
COMPILED = {"compiled", "compiled_backward"}
GRADIENT = {"backward", "compiled_backward"}

GRAPH_FILE = "<samples>"  # sample i is line i + FIRST_LINE
FIRST_LINE = 3

STEPS = (1, 2)  # between the elements of a row of out=

# Samples of the database by form, and of each wide class.
SMALL = {"eager": 6, "compiled": 2, "backward": 2, "compiled_backward": 1, "in_place": 2, "out": 2}


def dtype_of(name: str) -> torch.dtype:
    """PyTorch's dtype of an entry of rows.DTYPES."""
    return torch.float32 if name == "extended" else getattr(torch, name)


def profile_of(name: str) -> str:
    """What its float32 is: that of a real card, or every function (docs/python.md)."""
    return "extended" if name == "extended" else "card"


def applies(op, dtype: torch.dtype, form: str) -> bool:
    """Whether the database has the form of the operator for the CPU."""
    if op.name.startswith("jiterator") or not op.supports_dtype(dtype, "cpu"):
        return False
    if form in GRADIENT:
        return op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    if form == "in_place":
        return op.inplace_variant is not None
    return form != "out" or op.supports_out


# PyTorch wants their second tensor on the CPU, whichever device computes.
INDICES_OF_THE_CPU = {"tensor_split"}


def on_device(op, values):
    """The arguments `values` with every tensor on the device; leaves of autograd stay leaves."""

    def one(value):
        if isinstance(value, torch.Tensor) and (value is values[0] or not keeps_indices):
            return value.detach().to(DEVICE).requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor):
            return value
        return torch.device(DEVICE) if value in ("cpu", torch.device("cpu")) else value

    keeps_indices = op.name in INDICES_OF_THE_CPU
    return pytree.tree_map(one, values)


def function(op, form: str) -> Callable[[Sample], object]:
    """What a form does with a sample; a new copy of the inputs is the caller's task."""
    if form == "in_place":
        return lambda sample: _in_place(op, sample)
    if form == "out":
        return lambda sample: _with_out(op, sample)
    if form == "out_values":  # what `out` should give
        return lambda sample: [_tensors(call(op, sample))] * len(STEPS)
    if form in GRADIENT:
        return lambda sample: gradients(sample, call(op, sample))
    return lambda sample: call(op, sample)


def call(op, sample: Sample):
    return op(sample.input, *sample.args, **sample.kwargs)


def compiled(op, form: str, samples: list[Sample], **options) -> list:
    """The results of all samples by one compiled graph; `options` are those of torch.compile().

    A sample is a line of the function that is traced, so that reports tell which sample a node
    comes from (placement.py)."""
    torch._dynamo.reset()
    constants: list = []
    tensors: list[torch.Tensor] = []
    calls = [_source(sample, tensors, constants) for sample in samples]
    scope: dict = {"f": op.op, "c": constants}
    source = "def batch(t):\n    return [\n" + "".join(f"{call},\n" for call in calls) + "]\n"
    exec(compile(source, GRAPH_FILE, "exec"), scope)
    results = torch.compile(scope["batch"], **options)(tensors)
    return _gradients(list(zip(samples, results, strict=True))) if form in GRADIENT else results


def _source(sample: Sample, tensors: list, constants: list) -> str:
    """The call of a sample as Python, tensors and constants by number."""

    def one(value) -> str:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return f"t[{len(tensors) - 1}]"
        if type(value) is list:
            return "[" + ", ".join(map(one, value)) + "]"
        if type(value) is tuple:
            return "(" + "".join(one(item) + ", " for item in value) + ")"
        constants.append(value)
        return f"c[{len(constants) - 1}]"

    named = [f"{name}={one(value)}" for name, value in sample.kwargs.items()]
    return f"f({', '.join([one(sample.input), *map(one, sample.args), *named])})"


def gradients(sample: Sample, result) -> list:
    """The gradients of the sample's leaves for cotangents that have few bits."""
    return _gradients([(sample, result)])[0]


def _gradients(pairs: list[tuple[Sample, object]]) -> list[list]:
    """The same for several samples by one backward pass: a compiled graph has only one."""
    counts, leaves, outputs, cotangents = [], [], [], []
    for sample, result in pairs:
        own = [t for t in sample.tensors() if t.requires_grad]
        ends = [t for t in pytree.tree_leaves(sample.take(result))
                if isinstance(t, torch.Tensor) and t.requires_grad]  # fmt: skip
        counts.append(len(own) if ends else 0)
        if own and ends:
            leaves += own
            outputs += ends
            cotangents += [_cotangent(t, seed) for seed, t in enumerate(ends)]
    if not leaves:
        return [[] for _ in pairs]
    found = iter(torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True))
    return [[next(found) for _ in range(count)] for count in counts]


def _cotangent(like: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    eighths = torch.randint(-16, 17, like.shape, generator=generator) / 8
    return eighths.to(like.dtype).to(like.device)


def _tensors(result) -> list:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _in_place(op, sample: Sample):
    target = sample.input.clone() if isinstance(sample.input, torch.Tensor) else sample.input
    result = op.inplace_variant(target, *sample.args, **sample.kwargs)
    if isinstance(target, torch.Tensor) and result is not target:
        raise AssertionError("the result is another tensor than self")
    return target


def _with_out(op, sample: Sample):
    """Into tensors of the right shape, once contiguous and once every other element of a row."""
    expected = call(op, sample)
    several = isinstance(expected, (tuple, list))
    results = []
    for step in STEPS:
        outs = [_target(t, step) for t in (expected if several else [expected])]
        given = tuple(outs) if several else outs[0]
        op(sample.input, *sample.args, **sample.kwargs, out=given)
        results.append(outs)
    return results


def _target(like: torch.Tensor, step: int) -> torch.Tensor:
    if step == 1 or like.dim() == 0:
        return torch.full(like.shape, 3, dtype=like.dtype).to(like.device)
    sizes = [*like.shape[:-1], like.shape[-1] * step]
    return torch.full(sizes, 3, dtype=like.dtype).to(like.device)[..., ::step]
