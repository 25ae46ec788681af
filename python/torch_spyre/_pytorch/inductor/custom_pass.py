# SPDX-License-Identifier: Apache-2.0
"""Inductor's class of passes over FX graphs; importing this imports Inductor."""

from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

__all__ = ["CustomGraphPass", "get_hash_for_files"]
