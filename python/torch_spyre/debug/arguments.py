# SPDX-License-Identifier: Apache-2.0
"""Arguments of the commands that are written in Python, which refuse as the library's do: in one
line, with exit code 2."""

from __future__ import annotations

import argparse
from typing import NoReturn


class ArgumentParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")
