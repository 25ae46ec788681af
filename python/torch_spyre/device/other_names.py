# SPDX-License-Identifier: Apache-2.0
"""Names of `torch.cuda` that `torch.spyre` lacks, and what a ported program says instead."""

import re

_INSTEAD = (
    (r"amp", "torch.autocast('spyre') and torch.amp.GradScaler('spyre')"),
    (r"\w+(Tensor|Storage)", "torch.empty(.., dtype=, device='spyre')"),
    (r"CUDAGraph|graph\w*|make_graphed_callables", "torch.compile(): a graph is few launches"),
    (r"nccl", "torch.distributed with the backend 'spyreccl'"),
    (r"nvtx|cudart|profiler", "torch.profiler, and record_function() for ranges"),
    (r"utilization|temperature|power_draw|clock_rate|memory_usage|list_gpu_processes",
     "`spyre smi` shows what a card does"),
    (r"(\w*host_memory|memory_snapshot|max_memory_cached|memory_cached|\w*_max_memory_cached)\w*",
     "memory_stats(), or memory_summary() as a table"),
    (r"caching_allocator\w*|\w*PluggableAllocator|change_current_allocator|get_allocator_backend"
     r"|MemPool|use_mem_pool",
     "a card has one allocator: set_per_process_memory_fraction() bounds it"),
    (r"ExternalStream|get_stream_from_external|GreenContext|current_(blas|solver)_handle",
     "Stream(): all streams of a card are PyTorch's"),
    (r"[gs]et_sync_debug_mode", "torch_spyre.fallback_report() names what waited for the host"),
    (r"jiterator|tunable|has_magma|has_half|get_gencode_flags",
     "nothing: torch.compile() makes the card's programs"),
    (r"CudaError|cudaStatus|check_error|DeferredCudaCallError|AcceleratorError", "RuntimeError"),
    (r"sparse", "torch.sparse: sparse tensors (COO) are held, and computed on the host"),
)  # fmt: skip


def hint(name: str) -> str:
    """ "; instead of torch.cuda's: ..", or "" for any other name."""
    for pattern, instead in _INSTEAD:
        if re.fullmatch(pattern, name):
            return f"; instead of torch.cuda.{name}: {instead}"
    return ""
