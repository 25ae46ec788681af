# SPDX-License-Identifier: Apache-2.0
"""Everything that a report of a fault needs, in one archive:

    spyre-bug-report [-o FILE.tar.gz] script.py [arguments]

It runs the program, and once more under spyre-bisect. The archive holds a checklist, the program,
versions and settings, what it printed (with every copy and warning), and what TORCH_COMPILE_DEBUG=1
leaves of its graphs. docs/debugging.md.
"""

from __future__ import annotations

import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile

import torch

from . import user_script
from .arguments import ArgumentParser, complain, write_lines

_SUMMARY = (__doc__ or "").partition("\n")[0]
_VARIABLES = ("SPYRE", "TORCH", "INDUCTOR", "AIU", "SENCORES", "LX_", "DXP", "LOCAL_RANK")


def versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        package = version("torch-spyre")
    except PackageNotFoundError:
        package = "not installed as a package"
    lines = [
        f"torch-spyre {package}",
        f"torch {torch.__version__}",
        f"python {platform.python_version()}",
        f"system {platform.platform()} {platform.machine()}",
        *(f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)),
    ]
    return "\n".join(lines) + "\n"


def collect(folder: pathlib.Path, script: pathlib.Path, arguments: list[str]) -> str:
    """Fills the folder; returns the checklist."""
    script = script.resolve()
    shutil.copy(script, folder / script.name)
    (folder / "versions.txt").write_text(versions())
    environment = {
        **os.environ,
        "TORCH_COMPILE_DEBUG": "1",
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
        "TORCH_SPYRE_DEBUG": "1",
        "SPYRE_LOG": "info",
    }
    paths = [str(script.parent), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    code = _run(folder / "log.txt", [str(script), *arguments], environment)
    command = ["-m", "torch_spyre.debug.bisect", str(script), *arguments]
    verdict = _run(folder / "bisect.txt", command, dict(os.environ))
    graphs = len(list(folder.glob("torch_compile_debug/run_*/torchinductor/model__*")))
    sides = {0: "no side of a compiled graph is wrong", 1: "a side is wrong, or the program fails"}
    checklist = [
        f"[x] reproducer: {script.name} {' '.join(arguments)}".rstrip(),
        "[x] versions and variables: versions.txt",
        f"[x] log: log.txt, the program ended with {code}",
        f"[{'x' if graphs else ' '}] artefacts: torch_compile_debug, {graphs} compiled graphs",
        f"[x] which side: bisect.txt, {sides.get(verdict, f'it ended with {verdict}')}",
        "[ ] expected and actual behaviour: please say",
    ]
    return "\n".join(checklist) + "\n"


def _run(log: pathlib.Path, command: list[str], environment: dict[str, str]) -> int:
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(
            [sys.executable, *command], stdout=out, stderr=out, env=environment, check=False
        )
    return done.returncode


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser("spyre-bug-report", description=_SUMMARY)
    parser.add_argument("-o", "--output", default="spyre_bug_report.tar.gz", type=pathlib.Path)
    user_script.add_to(parser)
    given = parser.parse_args(arguments)
    if not user_script.is_program(parser.prog, given.script):
        return 2
    name = given.output.name.removesuffix(".gz").removesuffix(".tar")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch, name)
        folder.mkdir()
        checklist = collect(folder, given.script, given.arguments)
        (folder / "CHECKLIST.txt").write_text(checklist)
        archive = pathlib.Path(scratch, "archive")
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(folder, arcname=name)
        try:
            shutil.move(archive, given.output)
        except OSError as error:
            return complain(parser.prog, given.output, error)
    return write_lines(parser.prog, [str(given.output), checklist.rstrip("\n")])


if __name__ == "__main__":
    sys.exit(main())
