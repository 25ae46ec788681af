# SPDX-License-Identifier: Apache-2.0
"""Torch-spyre's default passes by their names, and what does their work here.

Source: torch-spyre/torch-spyre, `torch_spyre/_inductor/passes.py`. The names are a view: passes of
this compiler are C over the loop IR (docs/front.md), and there is nothing to call, reorder or
remove under torch-spyre's names.
"""

from __future__ import annotations

# By torch-spyre's extension point: name of its pass, and the pass of the front or the module that
# does the same. "graph" is the compiler's layer before the loop IR (docs/graph.md).
DEFAULT_PASSES: dict[str, dict[str, str]] = {
    "CustomPreGradPasses": {},
    "CustomPrePasses": {"collect_spyre_hints": "torch_spyre.compile.hints.hint_scopes"},
    "CustomPostPasses": {
        "recover_spyre_hints": "torch_spyre.compile.hints.hint_scopes",
        "mm_to_bmm": "graph",
        "mark_direct_unit_bmm": "graph",
        "bmm_unflatten": "graph",
    },
    "CustomPreSchedulingPasses": {
        "splice_while_loops": "reroll_steps",
        "deadcode_elimination": "deadcode",
        "split_multi_ops": "graph",
        "propagate_spyre_tensor_layouts": "propagate_layouts",
        "validate_ops": "graph",
        "optimize_restickify_locations": "propagate_layouts",
        "finalize_layouts": "output_layouts",
        "insert_restickify": "propagate_layouts",
        "insert_bmm_padding": "propagate_layouts",
        "dedup_and_promote_constants": "dedup_constants",
        "chunk_large_tensors": "coarse_tile",
        "propagate_named_dims": "named_dims",
        "assign_dim_hints": "hinted_divisions",
        "coarse_tile": "coarse_tile",
        "span_reduction": "span_reduction",
        "cost_model_matmul_division": "matmul_split",
        "work_distribution": "work_distribution",
        "scratchpad_planning": "lx_planning",
        "elide_proven_read_copies": "elide_copies",
    },
    "CustomPreFusionPasses": {
        "propagate_mutation_layouts": "write_in_place",
        "build_loop_scheduler_nodes": "coarse_tile",
    },
    "CustomPostFusionPasses": {
        "memory_planning": "memory_planning",
        "spyre_fuse_nodes": "graph",
    },
}

_OWN = {name: own for names in DEFAULT_PASSES.values() for name, own in names.items()}


def own(name: str) -> str:
    """The pass that torch-spyre's name stands for; any other name is itself."""
    return _OWN.get(name, name)


def of_torch_spyre(name: str) -> list[str]:
    """Torch-spyre's names of what a pass does, but for its own."""
    return [theirs for theirs, own in _OWN.items() if own == name and theirs != name]
