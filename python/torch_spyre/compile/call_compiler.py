# SPDX-License-Identifier: Apache-2.0
"""Calls of the compiler with the settings of torch_spyre.config."""

from __future__ import annotations

import sys
from collections.abc import Callable

from .. import _C, config, environment, setting_rules
from ..debug import cost_report, failures, kernel_files
from .segments import card_segments

# Called with every executable that is compiled or found in the cache.
observers: list[Callable[[_C.Executable], None]] = []


def settings() -> dict[str, str]:
    """torch_spyre.config as the compiler takes it."""
    values = {name: getattr(config, name) for name, *_ in _C.settings()}
    return {name: setting_rules.text_of(value) for name, value in values.items()}


def setting(name: str) -> bool | int | float | str:
    """One of them, as torch_spyre.config has it now."""
    value: bool | int | float | str = getattr(config, name)
    return value


def compile_graph(
    graph: _C.Graph, host_fallback: bool, stages: str | None = None, plan: str | None = None
) -> _C.Executable:
    """Compiles with the settings of torch_spyre.config; the compiler writes its stages into the
    directory `stages` (or SPYRE_DUMP_DIR). `plan` is that of the same graph at larger sizes. Raises
    torch_spyre.Unsupported."""
    directory = stages or environment.directory("SPYRE_DUMP_DIR")
    with failures.reported("compile_backend"):
        executable = _C.compile(graph, settings(), directory, host_fallback, _loop_pass(), plan)
    if report := cost_report.cost_model_pass(executable):
        _print_cost(report, executable)
    for observer in observers:
        observer(executable)
    if kernel_files.wanted():
        kernel_files.write_all(executable)
    return executable


def _loop_pass() -> Callable[[int, object], None] | None:
    """The user's passes over the loop IR. Their module imports all of Inductor, so it is asked only
    when a user has imported it."""
    passes = sys.modules.get("torch_spyre.passes")
    return passes.loop_pass() if passes else None


def _print_cost(report: cost_report.CostReport, executable: _C.Executable) -> None:
    """The report of the cost model, and divisions and times of every kernel, on stderr."""
    print(report.format(), file=sys.stderr)
    for segment in card_segments(executable):
        text = executable.text(segment.index, "cost")
        print(f"segment {segment.index}\n{text}", end="", file=sys.stderr)


def takes_scalars() -> bool:
    """Whether numbers may be parameters. Programs that are written to files hold theirs."""
    written = environment.directory("SPYRE_DUMP_DIR") or kernel_files.wanted()
    return not observers and not written
