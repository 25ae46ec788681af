# SPDX-License-Identifier: Apache-2.0
"""Operators that are judged otherwise than by the bound of `bounds.py`, and why."""

from __future__ import annotations

# Their CPU kernels take statistics of other channels than the input's, PyTorch's compiler does not.
OF_CHANNELS = {"native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"}

# Their values are not defined.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
             "new_empty_strided", "resize_", "resize_as_"}  # fmt: skip

# Their mean and reciprocal deviation are float32 on every device but the CPU.
STATISTICS = {"native_layer_norm", "native_group_norm", "native_batch_norm",
              "_native_batch_norm_legit", "_batch_norm_with_update"}  # fmt: skip

# Their algorithms keep the error small beside the norm of the result.
NORMWISE = {"linalg.eigh", "linalg.eigvals", "linalg.eigvalsh", "linalg.svdvals"}

# The card has one operation for all of these arguments (docs/special-values.md): what the operator
# gives with the second form of them is right, too.
OTHER_FORMS = {"nn.functional.gelu": lambda sample: sample._replace(kwargs={})}

# Of equal elements PyTorch's CPU kernels choose any one, which then gets the gradient.
TIED = {"sort", "msort", "mode", "kthvalue", "median", "nanmedian", "topk"}

# Their order is not defined.
UNORDERED = {"linalg.eigvals"}

# PyTorch's own formulas of their gradients have nodes per column: tracing them takes a minute.
TRACED_BY_COLUMN = {"linalg.householder_product", "ormqr"}
