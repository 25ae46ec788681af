# SPDX-License-Identifier: Apache-2.0
"""Arithmetic with sparse tensors (COO), which the host computes on copies. The binding holds,
copies and makes them dense (core/tensor/sparse.cpp). The compressed layouts (CSR, CSC, BSR, BSC)
are refused where one is to be made."""

from __future__ import annotations

from typing import Any

import torch

from .._pytorch.dispatch import OpOverload
from .._pytorch.dynamo import untraced
from .run_on_cpu import run_on_cpu

# Operators that PyTorch composes for devices as if every tensor were dense.
_DENSE_COMPOSITIONS = (
    "abs", "abs_", "deg2rad", "deg2rad_", "empty_like", "isinf", "mv", "nan_to_num", "nan_to_num_",
    "permute", "rad2deg", "rad2deg_", "sum", "unsqueeze",
)  # fmt: skip


def _on_host(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    return run_on_cpu(op, args, kwargs, "the card has no sparse tensors")


def _kernel(op: OpOverload) -> Any:
    return untraced(lambda *args, **kwargs: _on_host(op, *args, **kwargs))


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Every way to a compressed tensor of the device ends here: `.to("spyre")`, the constructors,
    `to_sparse_csr()`, torch.load(); and every operator of one of the host and a dense tensor."""
    layout = kwargs.get("layout") or "a compressed sparse tensor"
    raise NotImplementedError(
        f"{layout}: the spyre device has sparse tensors in the layout torch.sparse_coo only; "
        "to_sparse(layout=torch.sparse_coo) or to_dense() before they go there"
    )


def register() -> list[torch.library.Library]:
    """Registers the operators; the registrations live as long as what is returned."""
    rest = torch.library.Library("_", "IMPL")
    rest.fallback(untraced(_on_host), "SparsePrivateUse1")
    composed = torch.library.Library("aten", "IMPL", "SparsePrivateUse1")
    for name in _DENSE_COMPOSITIONS:
        composed.impl(name, _kernel(getattr(torch.ops.aten, name).default))
    made = torch.library.Library("aten", "IMPL", "SparseCsrPrivateUse1")
    made.impl("_sparse_compressed_tensor_unsafe", untraced(_refuse))  # PyTorch composes it
    compressed = torch.library.Library("_", "IMPL")
    compressed.fallback(untraced(_refuse), "SparseCsrPrivateUse1")
    return [rest, composed, made, compressed]
