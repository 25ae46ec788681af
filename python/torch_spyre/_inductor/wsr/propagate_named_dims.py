# SPDX-License-Identifier: Apache-2.0
"""Names of dims, under torch-spyre's module name."""

from ...compile.hints.named_dims import declare_tensor_dim, name_tensor_dims, reset

__all__ = ["declare_tensor_dim", "name_tensor_dims", "reset"]
