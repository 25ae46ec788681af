#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/serving.md from torch_spyre/sendnn/environment_variables.py.

    tools/serving_page.py [--check]

With --check nothing is written; exit status 1 when the page is not what would be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from torch_spyre.sendnn.environment_variables import VARIABLES

PAGE = Path(__file__).resolve().parents[1] / "docs/serving.md"
FIRST = "<!-- tools/serving_page.py writes from here -->\n"
LAST = "<!-- to here -->\n"


def table() -> str:
    lines = ["| variable | | |", "| --- | --- | --- |"]
    for variable in VARIABLES:
        kind = "honoured" if variable.honoured else "no effect"
        lines.append(f"| `{variable.name}` | {kind} | {variable.effect} |")
    return "\n".join(lines) + "\n"


def page(present: str) -> str:
    before, _, rest = present.partition(FIRST)
    after = rest.partition(LAST)[2]
    return f"{before}{FIRST}\n{table()}\n{LAST}{after}"


def main() -> int:
    present = PAGE.read_text()
    wanted = page(present)
    if "--check" in sys.argv[1:]:
        if present != wanted:
            print("docs/serving.md: run tools/serving_page.py", file=sys.stderr)
        return int(present != wanted)
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
