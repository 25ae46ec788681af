# SPDX-License-Identifier: Apache-2.0
"""Arguments and output of the commands that are written in Python, which refuse as the library's
do: in one line, with exit code 2."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import NoReturn


class ArgumentParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def complain(command: str, of: object, error: OSError) -> int:
    """Says what cannot be read or written; returns the exit code."""
    print(f"{command}: {of}: {error.strerror}", file=sys.stderr)
    return 2


def write_lines(command: str, lines: Iterable[str]) -> int:
    """Prints a command's results; returns its exit code."""
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer goes nowhere, or Python would try again as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return complain(command, "standard output", error)
    return 0
