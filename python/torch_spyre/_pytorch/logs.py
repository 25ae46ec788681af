# SPDX-License-Identifier: Apache-2.0
"""Entries of TORCH_LOGS that name this package's loggers.

PyTorch takes names of its own list and of modules, without levels; "spyre.inductor:DEBUG", which
torch-spyre has, it refuses, and no hook can add such a spelling. So only where the variable names a
logger of this package, PyTorch's reader is given the other entries.
"""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

_VARIABLES = (
    "TORCH_SPYRE_DEBUG",
    "SPYRE_INDUCTOR_LOG",
    "SPYRE_INDUCTOR_LOG_LEVEL",
    "SPYRE_LOG_FILE",
)


def take_own_entries() -> None:
    """Sets the levels that the environment asks for; PyTorch then reads the rest of TORCH_LOGS."""
    asked = "spyre" in os.environ.get("TORCH_LOGS", "")
    if asked or any(os.environ.get(variable) for variable in _VARIABLES):
        from .. import logging_config  # noqa: F401  (reads the environment)
    if asked:
        _leave_the_others()


def _leave_the_others() -> None:
    from torch._logging import _internal

    from ..logging_config import is_own_entry

    parse = _internal._parse_log_settings
    if hasattr(parse, "_without_spyre"):
        return

    @functools.wraps(parse)
    def parse_others(settings: str) -> Any:
        entries = settings.replace(" ", "").split(",")
        others = [entry for entry in entries if not is_own_entry(entry)]
        if len(others) == len(entries):
            return parse(settings)
        return parse(",".join(others)) if others else _internal.LogState()

    parse_others._without_spyre = parse  # type: ignore[attr-defined]
    _internal._parse_log_settings = parse_others  # type: ignore[assignment]


def artifact_logger(name: str) -> logging.Logger:
    """PyTorch's logger of an artefact that TORCH_LOGS names; it has PyTorch's handlers."""
    from torch._logging._internal import getArtifactLogger

    return getArtifactLogger("torch.spyre", name)
