# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a graph a kernel was made of, by the name that the kernel has in profiles:
torch-spyre's registry (`torch_spyre/_C.pyi`, `torch_spyre/csrc/kernel_provenance_registry.cpp`).

A name is `spyre_kernel_v1_<what it computes>_<key>`, in profiles with `#<step>` behind it; the key,
16 characters of base32, stands for the debug handles of the nodes.
"""

from __future__ import annotations

import collections
import re
import threading
import warnings
from collections.abc import Sequence

AIUPTI_ACTIVITY_NAME_MAX_BYTES = 127  # a char[128] of libaiupti holds the names

_NAME = re.compile(r"spyre_kernel_v1_[A-Za-z0-9_]+_([a-z2-7]{16})(?:#[0-9]+)?", re.ASCII)
_entries: dict[str, list[str]] = {}
_counts: collections.Counter[str] = collections.Counter()
_lock = threading.Lock()


def extract_kernel_provenance_key(event_name: str) -> str | None:
    """The key in the name of an event; None in any other name."""
    match = _NAME.fullmatch(event_name)
    return match and match[1]


def register_kernel_provenance(event_base_name: str, debug_handle_ids: Sequence[str]) -> bool:
    """Notes the handles of a name. False, with a warning, for a name without a key and for a key
    that already has other handles, which it keeps."""
    key = extract_kernel_provenance_key(event_base_name)
    if key is None:
        text = f"{event_base_name}: no key at its end, so the kernel's origin is not registered"
        warnings.warn(text, stacklevel=2)
        return False
    handles = list(debug_handle_ids)
    with _lock:
        known = _entries.setdefault(key, handles)
        _counts["conflicts"] += known != handles
    if known != handles:
        text = f"kernel provenance {key}: it keeps the handles {known}, {handles} are rejected"
        warnings.warn(text, stacklevel=2)
    return known == handles


def lookup_kernel_provenance(key: str) -> list[str] | None:
    """The handles of a key, or None. Counts as a hit or a miss."""
    with _lock:
        handles = _entries.get(key)
        _counts["misses" if handles is None else "hits"] += 1
    return handles and list(handles)


def kernel_provenance_registry_stats() -> dict[str, int]:
    """Entries, hits, misses and conflicts of the process so far."""
    with _lock:
        counts = {name: _counts[name] for name in ("hits", "misses", "conflicts")}
        return {"entries": len(_entries), **counts}
