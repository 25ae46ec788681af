# SPDX-License-Identifier: Apache-2.0
"""Profiles of the card by torch.profiler (docs/profiling.md)."""

from __future__ import annotations

from torch.profiler import kineto_available

from torch_spyre import _C
from torch_spyre.debug.failures import get_diagnostic_report

__all__ = ["get_diagnostic_report", "is_available"]


def is_available() -> bool:
    """Whether `ProfilerActivity.PrivateUse1` yields events of the card: yes, unless
    USE_SPYRE_PROFILER=0 was set at import."""
    return _C.profiler_available() and kineto_available()
