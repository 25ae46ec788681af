# SPDX-License-Identifier: Apache-2.0
"""The card in the metrics of vLLM's server (`/metrics`), by two of vLLM's entry points.

`prepare_server` (vllm.general_plugins) runs before the server starts the process whose card
computes, and in it. It gives both memory to share (shared_steps.py), and puts the card into traces
(server_trace.py). `CardMetrics` (vllm.stat_logger_plugins) runs in the process that answers
clients. vLLM tells it, when tokens have come, how long each request waited for them; the steps that
ended meanwhile are what the card took for that. Without a card nothing is added to the metrics.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from prometheus_client import Counter, Gauge, Histogram
from vllm.v1.metrics.loggers import AggregateStatLoggerBase

from . import recording
from .server_trace import trace_card
from .shared_steps import KINDS, MEMORY, SharedSteps

_shared: SharedSteps | None = None
_BUCKETS = [step * 10.0**power for power in range(-5, 3) for step in (1, 2, 5)]  # seconds
_LABELS = ("model_name", "engine")  # vLLM's
_PROCESS = "_api_process_rank"  # -1 or 0 for the first one

_TOTALS = {  # of calls of the model, by kind
    "steps": "Calls of the model.",
    "card_seconds": "Modelled time of the card in calls of the model.",
    "host_seconds": "Time of the host in calls of the model, emulation included.",
}
_WAITS = {
    "time_to_first_token_card_seconds": "Modelled card time from arrival to the first token.",
    "inter_token_latency_card_seconds": "Modelled card time between two tokens of a request.",
    "request_card_seconds": "Modelled card time from arrival to the last token.",
}


def prepare_server() -> None:
    _share_steps()
    trace_card()


def _share_steps() -> None:
    """Once for all processes of a server: the first one makes the memory."""
    global _shared
    if not os.environ.get(recording.SHARED):
        _shared, os.environ[recording.SHARED] = SharedSteps.create()


def _opened() -> SharedSteps | None:
    """The memory that this process made, or another one of its server."""
    path = os.environ.get(recording.SHARED)
    return SharedSteps.open(path) if _shared is None and path else _shared


class _Metrics:
    """What prometheus shows of the card of one engine; `labels` are values of vLLM's."""

    def __init__(self, labels: Sequence[str]):
        self.labels = labels
        self.totals = {name: self._by("kind", KINDS, Counter, name, _TOTALS[name])
                       for name in _TOTALS}  # fmt: skip
        self.waits = [
            Histogram(f"spyre:{name}", text, _LABELS, buckets=_BUCKETS).labels(*labels)
            for name, text in _WAITS.items()
        ]
        programs = self._gauge("spyre:programs", "Programs compiled since the start.")
        self.programs = programs.labels(*labels)
        self.memory = self._by("use", MEMORY, self._gauge, "memory_bytes", "Memory of the card.")
        self.blocks = self._by("state", ("used", "free"), self._gauge, "kv_cache_bytes",
                               "Blocks of the KV cache on the card.")  # fmt: skip

    @staticmethod
    def _gauge(name: str, text: str, labels: Sequence[str] = _LABELS) -> Any:
        return Gauge(name, text, labels, multiprocess_mode="mostrecent")

    def _by(self, label: str, values: Sequence[str], kind: Any, name: str, text: str) -> Any:
        """{value: metric} by one label more."""
        metric = kind(f"spyre:{name}", text, (*_LABELS, label))
        return {value: metric.labels(*self.labels, value) for value in values}


class CardMetrics(AggregateStatLoggerBase):  # type: ignore[misc]
    """Of the first engine: those of a data-parallel server share one memory, which one writes."""

    def __init__(self, vllm_config: Any, engine_indexes: Sequence[int]):
        self.steps = _opened()
        self.metrics: _Metrics | None = None
        self.engine = engine_indexes[0]
        self.labels = (vllm_config.model_config.served_model_name, str(self.engine))
        # Of several processes that answer clients the first tells the totals.
        self.tells_totals = getattr(vllm_config.parallel_config, _PROCESS, 0) <= 0
        self.told: dict[tuple[str, str], float] = {}

    def log_engine_initialized(self) -> None:
        """Called by vLLM behind the warm-up, whose steps do not count."""
        if self.steps and self.steps["steps"]:
            self.metrics = _Metrics(self.labels)
            self.told = self._totals(self.steps)
            self._tell_state(self.steps, self.metrics)

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        """Called by vLLM behind each step of an engine."""
        if self.steps is None or self.metrics is None or engine_idx != self.engine:
            return
        if self.tells_totals:
            self._tell_totals(self.steps, self.metrics)
        self._tell_state(self.steps, self.metrics)
        if scheduler_stats is not None:
            used = scheduler_stats.kv_cache_usage * self.steps["bytes:kv_cache"]
            self.metrics.blocks["used"].set(used)
            self.metrics.blocks["free"].set(self.steps["bytes:kv_cache"] - used)
        if iteration_stats is not None:
            self._tell_waits(self.steps, self.metrics, iteration_stats)

    @staticmethod
    def _totals(steps: SharedSteps) -> dict[tuple[str, str], float]:
        return {(total, kind): steps[f"{total}:{kind}"] for total in _TOTALS for kind in KINDS}

    def _tell_totals(self, steps: SharedSteps, metrics: _Metrics) -> None:
        now = self._totals(steps)
        for (total, kind), value in now.items():
            metrics.totals[total][kind].inc(value - self.told[total, kind])
        self.told = now

    @staticmethod
    def _tell_state(steps: SharedSteps, metrics: _Metrics) -> None:
        metrics.programs.set(steps["programs"])
        for use, gauge in metrics.memory.items():
            gauge.set(steps[f"bytes:{use}"])

    @staticmethod
    def _tell_waits(steps: SharedSteps, metrics: _Metrics, iteration: Any) -> None:
        """Card time in the waits of which vLLM tells the host's, up to the same moment."""
        end = time.monotonic() - (time.time() - iteration.iteration_timestamp)
        waits = (
            iteration.time_to_first_tokens_iter,
            iteration.inter_token_latencies_iter,
            [finished.e2e_latency for finished in iteration.finished_requests],
        )
        for histogram, seconds in zip(metrics.waits, waits, strict=True):
            for wait in seconds:
                histogram.observe(steps.card_seconds(end - wait, end))
