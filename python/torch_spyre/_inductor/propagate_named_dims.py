# SPDX-License-Identifier: Apache-2.0
"""Names of dims, under the module name that torch-spyre had before its package wsr."""

from ..compile.hints.named_dims import declare_tensor_dim, name_tensor_dims, reset

__all__ = ["declare_tensor_dim", "name_tensor_dims", "reset"]
