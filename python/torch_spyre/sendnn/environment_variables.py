# SPDX-License-Identifier: Apache-2.0
"""Variables of the environment that programs for `torch_sendnn` set: what becomes of each.

The table of docs/serving.md is made of this one (tools/serving_page.py).
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

log = logging.getLogger("torch_spyre.sendnn")


@dataclass(frozen=True)
class Variable:
    name: str
    honoured: bool
    effect: str  # or why there is none


VARIABLES = (
    Variable("VLLM_DT_MAX_BATCH_SIZE", True, "warm-up compiles for batches up to it"),
    Variable("VLLM_DT_MAX_CONTEXT_LEN", True, "warm-up compiles for contexts up to it, in tokens"),
    Variable("VLLM_DT_MAX_BATCH_TKV_LIMIT", True, "and for no product of both above twice of it"),
    Variable("VLLM_DT_CHUNK_LEN", True, "in the state of the backend"),
    Variable("TORCH_SENDNN_CACHE_ENABLE", True, "1: programs are kept in `TORCH_SENDNN_CACHE_DIR`"),
    Variable("TORCH_SENDNN_CACHE_DIR", True, "the folder, unless `SPYRE_CACHE_DIR` names one"),
    Variable("FLEX_COMPUTE", True, "checked: SENTIENT, SENULATOR or NULL; all mean this card"),
    Variable("FLEX_DEVICE", True, "checked: PF, VF, VFIO, COMPILE or MOCK; all mean this card"),
    Variable("AIU_WORLD_SIZE", True, "cards of the process"),
    Variable("SENCORES", True, "cores that a program uses"),
    Variable("DISABLE_COMPILATION", False, "programs that the cache lacks are compiled"),
    Variable("COMPILATION_MODE", False, "prefill and decode are told apart by their graphs"),
    Variable("FLEX_OVERWRITE_NMB_FRAME", False, "the card has no such frames"),
    Variable("FLEX_HDMA_P2PSIZE", False, "no transfers between cards"),
    Variable("FLEX_HDMA_COLLSIZE", False, "collectives run on the host"),
    Variable("FLEX_HDMA_MODE_FULL", False, "one kind of transfer"),
    Variable("FLEX_RDMA_PCI_BUS_ADDR_FORMAT", False, "no PCI addresses"),
    Variable("DTLOG_LEVEL", False, "`SPYRE_LOG` is the level of messages"),
    Variable("DT_DEEPRT_VERBOSE", False, "`SPYRE_LOG` is the level of messages"),
    Variable("DT_OPT", False, "options of another compiler; `torch_spyre.config` has this one's"),
    Variable("DT_PROG_CRITERIA_FILEPATH", False, "read by clients only"),
    Variable("DTCOMPILER_KEEP_EXPORT", False, "`SPYRE_DUMP_DIR` keeps every stage's text"),
    Variable("DTCOMPILER_EXPORT_DIR", False, "`SPYRE_DUMP_DIR` keeps every stage's text"),
    Variable("DEEPRT_EXPORT_DIR", False, "`SPYRE_DUMP_DIR` keeps every stage's text"),
    Variable("SDSC_REF_DIR", False, "`spyre-bisect` compares with a reference"),
    Variable("DUMP_MEMMAP", False, "`aiu-smi` and `torch.spyre.memory_summary()` show memory"),
    Variable("DUMP_MEMMAP_DIR", False, "`aiu-smi` and `torch.spyre.memory_summary()` show memory"),
    Variable("DATA_PREC", False, "dtypes are those of the tensors"),
    Variable("SENCORELETS", False, "both corelets are used"),
)  # fmt: skip

_said = False


def say_what_has_no_effect() -> None:
    """Once a process: one message with the variables that are set and change nothing."""
    global _said
    idle = [v.name for v in VARIABLES if not v.honoured and os.environ.get(v.name)]
    if idle and not _said:
        _said = True
        log.warning("variables without effect on this card: %s", ", ".join(idle))


def take_cache_folder() -> None:
    """TORCH_SENDNN_CACHE_DIR for programs, before the first is compiled. ValueError for a switch
    that is neither 0 nor 1."""
    enabled = os.environ.get("TORCH_SENDNN_CACHE_ENABLE") or "0"
    if enabled not in ("0", "1"):
        raise ValueError(f"TORCH_SENDNN_CACHE_ENABLE={enabled}: expected 0 or 1")
    folder = os.environ.get("TORCH_SENDNN_CACHE_DIR")
    if enabled == "1" and folder:
        os.environ["SPYRE_CACHE_DIR"] = os.environ.get("SPYRE_CACHE_DIR") or folder


def limit(name: str) -> int | None:
    """A positive whole number; None when the variable is not set. ValueError for another text."""
    text = os.environ.get(name)
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{name}={text}: expected a positive whole number")
    return int(text)
