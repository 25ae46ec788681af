# SPDX-License-Identifier: Apache-2.0
"""The card in the traces of vLLM's server (`--profiler-config`, `/start_profile`)."""

from __future__ import annotations

import functools
import os
from typing import Any

from vllm.profiler.wrapper import TorchProfilerWrapper

VARIABLE = "ProfilerActivity"  # which the plugin sets where the card computes


def trace_card() -> None:
    """The plugin's worker asks vLLM for a trace of the CPU, and by the variable for the card's."""
    init = TorchProfilerWrapper.__init__
    if hasattr(init, "__wrapped__"):
        return

    @functools.wraps(init)
    def with_card(self: Any, *args: Any, activities: list[str], **kwargs: Any) -> None:
        wanted = os.environ.get(VARIABLE)
        more = [wanted] if wanted == "PrivateUse1" and wanted not in activities else []
        init(self, *args, activities=[*activities, *more], **kwargs)

    TorchProfilerWrapper.__init__ = with_card
