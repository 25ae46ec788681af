# SPDX-License-Identifier: Apache-2.0
"""`spyre adopt DIR -- COMMAND`: starts a command whose Pythons import torch_spyre from DIR.

Run by its path, in a Python that has not imported the package: it needs the standard library only.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from collections.abc import Sequence

BAD_INPUT = 2
VARIABLE = "SPYRE_ADOPT"
STARTUP = pathlib.Path(__file__).resolve().parent / "startup"


def _complain(text: str) -> int:
    print(f"spyre adopt: {text}", file=sys.stderr)
    return BAD_INPUT


def _put_first(variable: str, *folders: str) -> None:
    rest = [folder for folder in os.environ.get(variable, "").split(os.pathsep) if folder]
    os.environ[variable] = os.pathsep.join([*folders, *rest])


def main(arguments: Sequence[str]) -> int:
    """Replaces the process by the command; returns an exit code for wrong arguments."""
    directory, *rest = arguments or ("--",)
    if directory.startswith("-") or len(rest) < 2 or rest[0] != "--":
        return _complain("expected DIR -- COMMAND [arguments]")
    checkout = pathlib.Path(directory).resolve()
    if not (checkout / "torch_spyre" / "__init__.py").is_file():
        return _complain(f"{directory}: no torch_spyre/__init__.py, so no checkout of torch-spyre")
    command = rest[1:]
    os.environ[VARIABLE] = str(checkout)
    _put_first("PYTHONPATH", str(STARTUP), str(checkout))
    _put_first("PATH", os.path.dirname(sys.executable))  # python and dxp_standalone
    program = shutil.which(command[0])
    if program is None:
        return _complain(f"{command[0]}: no such command")
    os.execv(program, command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
