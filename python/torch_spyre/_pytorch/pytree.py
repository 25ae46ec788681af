# SPDX-License-Identifier: Apache-2.0
"""Nested containers of PyTorch, which has no public module for them."""

from torch.utils._pytree import arg_tree_leaves, tree_leaves, tree_map, tree_map_only

__all__ = ["arg_tree_leaves", "tree_leaves", "tree_map", "tree_map_only"]
