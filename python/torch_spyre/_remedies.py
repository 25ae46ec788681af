# SPDX-License-Identifier: Apache-2.0
"""What a fallback's rule means to a user, and what a program can do about it.

Rules are the compiler's and short; docs/operators.md lists them by operator. A warning says more,
by the first row of these tables whose pattern is found in the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch

# (what is found in a rule, what takes the rule's place)
_MEANINGS = (
    (r"^the card has no lowering for it$", "the card has no program for this operator"),
    (
        r"^its decomposition does not take these arguments",
        "the card has it of other dtypes, sizes or options only",
    ),
    (r"dtype is not known to the compiler$", "the card has no format for a result's dtype"),
    (
        r"^PyTorch does not tell what it returns",
        "sizes of its results depend on values, or PyTorch has no meta kernel that tells them",
    ),
)

_PRODUCTS = (
    "float32 products run on the host, as beside a real card: `.half()`, "
    "`torch.autocast('spyre')`, or SPYRE_PROFILE=extended"
)
_REMEDIES = (
    (r"float64|Double", "The card has no float64: `.float()` or `.half()`"),
    (
        r"[Cc]omplex",
        "The card has no complex numbers: keep both parts in one tensor, `torch.view_as_real()`",
    ),
    (r"(batchmatmul|convolution\w*|conv\w*) on float32", _PRODUCTS),
    (
        r"on float32",
        "The card has published functions of float32 alone, all of 16 bits: `.half()`, "
        "or SPYRE_PROFILE=extended",
    ),
    (
        r"batchmatmul on (int|uint|bool)",
        "Products are of floating numbers: `.half()` before, `.int()` behind",
    ),
    (
        r"32[- ]bit",
        "The card computes integers in 32 bits: keep them below 2^31, or `.float()`",
    ),
    (r"on (int|uint|bool)", "The card computes it of floating numbers: `.half()` or `.float()`"),
    (r"sparse", "`to_dense()` brings it to the card"),
)
# Rules of what no decomposition brings to the card.
_OF_THE_HOST = r"random numbers|^PyTorch does not tell"


def meaning(reason: str) -> str:
    """The rule as a user reads it."""
    for pattern, text in _MEANINGS:
        if re.search(pattern, reason):
            return text
    return reason


def remedy(op: object, reason: str, tensors: Iterable[torch.Tensor]) -> str:
    """What keeps the operator on the card, or accepts that it is not there; never empty."""
    dtypes = {tensor.dtype for tensor in tensors}
    subject = " ".join([reason, *(str(d) for d in dtypes if d.is_complex or d == torch.float64)])
    for pattern, text in _REMEDIES:
        if re.search(pattern, subject):
            return text
    name = ".".join(str(op).split(".")[:2])
    accepts = f'`torch_spyre.fallback("warn", allow=["{name}"])` accepts it'
    if name == "graph":
        return f"The report says which nodes (`torch_spyre.last_report()`); {accepts}"
    if re.search(_OF_THE_HOST, reason):
        return f"That is the host's in every form; {accepts}"
    return f"A decomposition brings it to the card (`torch_spyre.registry`); {accepts}"
