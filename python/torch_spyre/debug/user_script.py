# SPDX-License-Identifier: Apache-2.0
"""A user's script as the argument of a command: `spyre-bisect script.py [arguments]`."""

from __future__ import annotations

import argparse
import functools
import pathlib
import runpy
import sys
from collections.abc import Sequence
from types import TracebackType


def add_to(parser: argparse.ArgumentParser) -> None:
    """Adds `script` and `arguments`, all that follows it, to a command's arguments."""
    parser.add_argument("script", type=pathlib.Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")


def is_program(command: str, script: pathlib.Path) -> bool:
    """Whether the script is a file of Python; the command says so on stderr if it is none."""
    rule = _what_is_wrong(script)
    if rule:
        print(f"{command}: {script}: {rule}", file=sys.stderr)
    return not rule


def _what_is_wrong(script: pathlib.Path) -> str:
    if not script.is_file():
        return "not a file" if script.exists() else "no such file"
    try:
        compile(script.read_bytes(), str(script), "exec")
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}" if error.lineno else error.msg
    except ValueError as error:  # of bytes 0
        return str(error)
    return ""


def _show(
    script: str, kind: type[BaseException], error: BaseException, frames: TracebackType | None
) -> None:
    first = frames
    while first and first.tb_frame.f_code.co_filename != script:
        first = first.tb_next
    shown = first or frames
    sys.__excepthook__(kind, error.with_traceback(shown), shown)


def run(script: pathlib.Path, arguments: Sequence[str]) -> None:
    """Runs the script as the main program of this process: its arguments and its folder first in
    the search path, as Python itself does. Exceptions of the script reach the caller; the traceback
    of an uncaught one begins in the script."""
    sys.excepthook = functools.partial(_show, str(script))
    sys.argv = [str(script), *arguments]
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")
