# SPDX-License-Identifier: Apache-2.0
"""Every stage of a kernel in a directory of its own, under PyTorch's cache directory:

    <cache>/inductor-spyre/<kernel>_<hash>/
        opspec.json                  what the front-end decided (docs/op-spec.md)
        bundle.mlir, sdsc_<n>.json   the SuperDSC-Bundle, numbered depth first
        program.lst                  the program's listing
        spyreCodeDir/                SpyreCode: spyrecode.json, init.bin
        kernel.json                  name, files, arguments, what a launch uses on the card

and, for aiu-trace-analyzer (`acelyzer -i TRACE -c <cache>/perf`), by the names that steps of a
kernel have in a trace of torch.profiler:

    <cache>/perf/inductor-spyre/<kernel>#<step>/perf/ideal_cycles.json

Written with SPYRE_KERNEL_FILES=1, torch-spyre's DUMP_SPYRE_CODE=1 or TORCH_COMPILE_DEBUG=1, of
compiled graphs and of programs made of OpSpecs; with DTCOMPILER_KEEP_EXPORT=true below
DTCOMPILER_EXPORT_DIR (or DEEPRT_EXPORT_DIR) instead, if set. `dxp_standalone --bundle -d DIR`
makes the same spyreCodeDir of the bundle. The hash is that of OpSpecs and listing: equal kernels
share a directory, whose files are equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from typing import Any

from .. import _C, environment
from ..compile.segments import card_segments, segment_of


def _keeps_export() -> bool:
    return os.environ.get("DTCOMPILER_KEEP_EXPORT", "").lower() in ("1", "true")


def wanted() -> bool:
    asked = environment.flag("SPYRE_KERNEL_FILES") or environment.flag("DUMP_SPYRE_CODE")
    return asked or _keeps_export() or os.environ.get("TORCH_COMPILE_DEBUG") == "1"


def root() -> pathlib.Path:
    from .._pytorch.inductor.inductor_files import cache_dir

    variables = ("DTCOMPILER_EXPORT_DIR", "DEEPRT_EXPORT_DIR") if _keeps_export() else ()
    for directory in filter(None, map(os.environ.get, variables)):
        return pathlib.Path(directory) / "inductor-spyre"
    return pathlib.Path(cache_dir()) / "inductor-spyre"


def write_all(executable: _C.Executable) -> None:
    """The kernels of every card segment."""
    for segment in card_segments(executable):
        write(executable, segment.index, segment.name)


def write_cycles(executable: _C.Executable) -> None:
    """What the trace of a program that is corrected for sizes needs beside the largest one's."""
    for segment in card_segments(executable):
        _write_ideal_cycles(segment.name, executable.counters(segment.index))


def write(executable: _C.Executable, segment: int, name: str) -> pathlib.Path:
    """The kernel's directory; it appears complete or not at all."""
    _write_ideal_cycles(name, executable.counters(segment))
    specs = executable.text(segment, "opspec")
    listing = executable.text(segment, "listing")
    key = hashlib.sha256((specs + listing).encode()).hexdigest()[:8]
    target = root() / f"{name}_{key}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix=".", dir=target.parent))
    try:
        executable.write(segment, "bundle", str(scratch))
        executable.write(segment, "spyrecode", str(scratch / "spyreCodeDir"))
        (scratch / "opspec.json").write_text(specs)
        (scratch / "program.lst").write_text(listing)
        about = _describe(executable, segment, name, json.loads(specs))
        about["files"] = sorted(str(p.relative_to(scratch)) for p in scratch.rglob("*.*"))
        (scratch / "kernel.json").write_text(json.dumps(about, indent=1) + "\n")
        scratch.chmod(0o755)
        try:
            scratch.rename(target)
        except OSError:  # another process was faster
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _describe(
    executable: _C.Executable, segment: int, name: str, kernel: dict[str, Any]
) -> dict[str, Any]:
    about = segment_of(executable, segment)
    return {
        "name": name,
        "arguments": kernel.get("arguments", []),
        "kernels": about.kernels,
        "macs": about.macs,
        "bytes": about.memory_bytes,
        "card_us": about.card_us,
        "counters": executable.counters(segment),
    }


def _write_ideal_cycles(name: str, counters: list[_C.KernelCounters]) -> None:
    """Of each step the cycles in which the matrix units are busy, at least, and its opfunc."""
    clock = _C._card_constants()["CLOCK"]
    for step in counters:
        cycles = round(step["pt_busy_us"] * clock)
        entry = {"ideal_cycles": cycles, "op_category": step["name"].partition("_")[2]}
        folder = root().parent / "perf/inductor-spyre" / f"{name}#{step['name']}" / "perf"
        folder.mkdir(parents=True, exist_ok=True)
        scratch = folder / f".{os.getpid()}"
        scratch.write_text(json.dumps([entry]) + "\n")
        scratch.replace(folder / "ideal_cycles.json")
