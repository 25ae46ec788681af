# SPDX-License-Identifier: Apache-2.0
"""The names of the package `torch_sendnn`, which its own modules only pass on."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from . import environment_variables
from .backend import sendnn_backend, sendnn_compile_only_backend, sendnn_decoder_backend
from .warmup import finish, get_warmup_mode, set_warmup_mode, warmup_mode

__all__ = [
    "get_warmup_mode",
    "lazy_handles",
    "preserve_lazyhandle",
    "release_lazyhandle",
    "sendnn_backend",
    "sendnn_compile_only_backend",
    "sendnn_decoder_backend",
    "set_warmup_mode",
    "update_lazyhandle",
    "warmup_mode",
]

lazy_handles: list[object] = []  # graphs that wait to be compiled: none do


def update_lazyhandle() -> None:
    """What programs call behind their warm-up where they do not use `warmup_mode`."""
    finish()


def preserve_lazyhandle() -> None:
    """Keeps handles for tools that look into them; there are none."""


def release_lazyhandle() -> None:
    """See preserve_lazyhandle()."""


_CONFIG = {
    "vllm_chunk_length": "VLLM_DT_CHUNK_LEN",
    "vllm_max_context_length": "VLLM_DT_MAX_CONTEXT_LEN",
    "vllm_max_batch_size": "VLLM_DT_MAX_BATCH_SIZE",
    "vllm_max_batch_tkv_limit": "VLLM_DT_MAX_BATCH_TKV_LIMIT",
}


def _config() -> dict[str, dict[str, str]]:
    found = {key: os.environ[name] for key, name in _CONFIG.items() if name in os.environ}
    return {"config": found}


@dataclass
class GraphCache:
    """What the variables said when `torch_sendnn` was imported; vLLM's plugin asks for it."""

    deeptools_config: dict[str, dict[str, str]] = field(default_factory=_config)


@dataclass
class State:
    spyre_graph_cache: GraphCache = field(default_factory=GraphCache)


def attach_state() -> None:
    """At the import of `torch_sendnn`: programs read the backend's attribute `__state`."""
    environment_variables.take_cache_folder()
    setattr(sendnn_backend, "__state", State())  # noqa: B010  (a name that mangling would change)
