# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own list of operators, with its sample arguments: on the device each gives what the CPU
gives, natively or by fallback, or is refused in words; none ends the process."""

import itertools
import warnings

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

SAMPLES = 2

# Their values are not defined, or drawn at random in an order of their own.
UNDEFINED = {"empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty",
             "empty_permuted"}  # fmt: skip

# Refused: sparse layouts, and an argument that PyTorch wants on the CPU for every device.
REFUSED = ("Sparse", "to be on cpu", "does not support dtype")


def to_device(value):
    return value.detach().to("spyre") if isinstance(value, torch.Tensor) else value


def call(op, sample):
    torch.manual_seed(0)
    x = sample.input.clone() if isinstance(sample.input, torch.Tensor) else sample.input
    return op(x, *sample.args, **sample.kwargs)


def difference(op, sample, expected):
    """What is wrong with the device's results, or None."""
    torch.manual_seed(0)
    x, args, kwargs = pytree.tree_map(to_device, (sample.input, sample.args, sample.kwargs))
    try:
        actual = op(x, *args, **kwargs)
    except (RuntimeError, NotImplementedError) as error:
        return None if any(words in str(error) for words in REFUSED) else str(error)
    for e, a in zip(pytree.tree_leaves(expected), pytree.tree_leaves(actual), strict=True):
        if not isinstance(e, torch.Tensor):
            continue
        if (e.dtype, e.shape) != (a.dtype, a.shape):
            return f"{a.dtype} {tuple(a.shape)} instead of {e.dtype} {tuple(e.shape)}"
        if op.name in UNDEFINED:
            continue
        if not torch.allclose(a.cpu().double(), e.double(), 1e-3, 1e-3, equal_nan=True):
            return f"values differ, shape {tuple(e.shape)}"
    return None


# `make test-ops` runs all of them in every form: a part is enough here.
@pytest.mark.host("aten")
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, 4))]
)
def test_every_operator(part):
    wrong, checked = [], 0
    for op in op_db[part::4]:
        if torch.float32 not in op.dtypes or op.name.startswith("jiterator"):  # CUDA only
            continue
        samples = op.sample_inputs("cpu", torch.float32, requires_grad=False)
        for sample in itertools.islice(samples, SAMPLES):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = call(op, sample)
                if any(leaf.is_complex() for leaf in pytree.tree_leaves(expected)
                       if isinstance(leaf, torch.Tensor)):  # fmt: skip
                    continue
                fault = difference(op, sample, expected)
            checked += 1
            if fault:
                wrong.append(f"{op.name} {op.variant_test_name}: {fault}")
    assert checked > 250 and wrong == []
