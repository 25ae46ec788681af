# SPDX-License-Identifier: Apache-2.0
"""What the loggers of spyre.inductor and spyre.execution say of a compiled graph. Nothing is made
for a logger that is off."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING

from .. import _C, config
from ..report import CompileReport
from . import output_code, pass_names

if TYPE_CHECKING:
    from ..compile.program import Program

Listings = Callable[[int], Iterable[tuple[str, str]]]  # (pass, loop IR after it) of a segment

_inductor = logging.getLogger("spyre.inductor")
_passes = logging.getLogger("spyre.inductor.passes")
_details = {  # logger: (what, stage of an executable), at DEBUG
    logging.getLogger("spyre.inductor.sdsc"): ("bundle", "bundle"),
    logging.getLogger("spyre.inductor.lowering"): ("natives", "graph"),
}
_stickify = logging.getLogger("spyre.inductor.stickify")
_wsr = logging.getLogger("spyre.inductor.wsr")
_division = logging.getLogger("spyre.inductor.work_division")
_codegen = logging.getLogger("spyre.inductor.codegen")
_execution = logging.getLogger("spyre.execution")


def wants_passes() -> bool:
    """Whether the loop IR after passes is to be shown: the compiler writes it on request."""
    return bool(config.log_passes) and _passes.isEnabledFor(logging.DEBUG)


def of_program(program: Program, report: CompileReport, passes: Listings | None) -> None:
    """`report` is the program's; `passes` are None without a folder of stages."""
    loggers = (_inductor, _passes, _stickify, _wsr, _division, _codegen, _execution)
    if not any(logger.isEnabledFor(logging.INFO) for logger in (*loggers, *_details)):
        return
    executable = program.executable
    _inductor.info("compiled: %s", report)
    for segment in program.segments:
        index = segment.index
        if not segment.on_card:
            _execution.info("segment %d: %d nodes on the host", index, len(segment.nodes))
            continue
        _log_passes(executable, index, passes)
        for logger, (what, stage) in _details.items():
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("segment %d, %s\n%s", index, what, executable.text(index, stage))
        _log_loops(index, executable)
        _execution.info("segment %d: %d kernels, %.1f us", index, segment.kernels, segment.card_us)
    if _codegen.isEnabledFor(logging.DEBUG):
        _codegen.debug("%s", output_code.of_program(program))


def _log_passes(executable: _C.Executable, index: int, passes: Listings | None) -> None:
    if not _passes.isEnabledFor(logging.INFO):
        return
    stages = executable.stages(index)
    names = [name for name, *_ in stages if name not in ("build", "invariants", "emit")]
    _passes.info("segment %d: BEFORE PRE-SCHEDULING", index)
    shown = dict(passes(index)) if passes and wants_passes() else {}
    wanted = [pass_names.own(name.strip()) for name in config.log_passes.split(",")]
    if unknown := set(wanted) - {*names, "", "all", "1"}:
        ran = ", ".join(dict.fromkeys(names))
        _passes.warning("SPYRE_LOG_PASSES: no pass %s; there are %s", ", ".join(unknown), ran)
    for name in dict.fromkeys(names):
        theirs = ", ".join(pass_names.of_torch_spyre(name))
        _passes.info("segment %d: %s%s", index, name, f" ({theirs})" if theirs else "")
        if name in shown and (name in wanted or wanted in (["all"], ["1"])):
            _passes.debug("segment %d, after %s\n%s", index, name, shown[name])
    _passes.info("segment %d: AFTER PRE-SCHEDULING", index)


def _log_loops(index: int, executable: _C.Executable) -> None:
    if not any(logger.isEnabledFor(logging.INFO) for logger in (_stickify, _wsr, _division)):
        return
    ops, _buffers = executable.loops(index)
    restickified = [op for op in ops if op[1].startswith("ReStickify")]
    in_tiles = [op for op in ops if op[-1]]
    for logger, found, what in (
        (_stickify, restickified, "restickified"),
        (_wsr, in_tiles, "in tiles"),
    ):
        logger.info("segment %d: %d ops %s", index, len(found), what)
        for name, opfunc, location, *_rest in found:
            logger.debug("segment %d: %s %s, %s", index, opfunc, name, location or "unknown")
    _log_divisions(index, ops)


def _log_divisions(index: int, ops: list[_C._LoopOp]) -> None:
    """Sizes of the loops and the number of slices of each, which are on cores of their own."""
    slices = [[loop[1] for loop in op[4]] for op in ops]
    _division.info("segment %d: %d ops on several cores", index, sum(prod(s) > 1 for s in slices))
    for op, splits in zip(ops, slices, strict=True):
        name, opfunc, location, _note, loops, *_rest = op
        space = {f"c{i}": loop[0] for i, loop in enumerate(loops)}
        divided = {f"c{i}": count for i, count in enumerate(splits)}
        text = "segment %d: work_division %s %s: cores=%d, iteration_space=%s, splits=%s, %s"
        _division.debug(
            text, index, opfunc, name, prod(splits), space, divided, location or "unknown"
        )
