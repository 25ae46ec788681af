# SPDX-License-Identifier: Apache-2.0
"""The table of a run: a line per operator, a letter per form and dtype.

    C  on the card, every class of shapes      c  on the card for some classes, else on the host
    h  on the host                             R  refused, as by the CPU
    m  of no tensor: made on the host, as constants and random numbers are
    x  refused, although the CPU computes it   a  another error class, or none (error inputs)
    W  wrong   S  slow   !  hung or crashed    -  not in the database   ?  not run yet

A form has a letter for each dtype in the order of rows.DTYPES; error inputs have one letter, `=`
when each raises what it raises on the CPU. After " | " stand the reasons for the host and for what
is refused, each with the dtypes that it holds for. Cells that were not run stay.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from pathlib import Path

from .rows import DTYPES, FORMS, Row

Case = tuple[str, str]  # dtype, form
Cases = dict[str, set[Case]]  # by operator

PATH = Path(__file__).with_name("operators.txt")
SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "extended": "x32",
         "int64": "i64", "bool": "bool",
         "-": "errors"}  # fmt: skip
REASONS = 3  # per operator
SEVERE = {"crashed": "!", "hung": "!", "wrong": "W", "slow": "S", "accepted": "a", "host only": "x"}


def letter(rows: list[Row], form: str) -> str:
    """The letter of one form and dtype from the rows of its classes."""
    if not rows:
        return "-"
    for verdict, sign in SEVERE.items():
        if any(row.verdict == verdict for row in rows):
            return sign
    if form == "errors":
        return "="
    right = [row for row in rows if row.verdict == "right"]
    ran = {row.place for row in right if row.shapes != "empty"} or {row.place for row in right}
    if not ran:
        return "R"
    if "host" in ran:
        return "c" if "card" in ran else "h"
    return "C" if ran == {"card"} else "m"


def line(op: str, rows: list[Row], ran: set[Case], planned: set[Case], old: str = "") -> str:
    """The line of an operator: new letters for what `ran`, those of the `old` line for the rest
    of what is `planned`."""
    before = old.partition(" | ")[0].split()[1:]
    columns = []
    for index, form in enumerate(FORMS):
        column = before[index] if before else ""
        letters = []
        for place, dtype in enumerate(("-",) if form == "errors" else DTYPES):
            if (dtype, form) in ran:
                cell = [r for r in rows if (r.form, r.dtype) == (form, dtype)]
                letters.append(letter(cell, form))
            else:
                unknown = "?" if (dtype, form) in planned else "-"
                letters.append(column[place] if column else unknown)
        columns.append("".join(letters))
    kept = _without(old.partition(" | ")[2], {SHORT[dtype] for dtype, _form in ran})
    reasons = "; ".join([*_reasons(rows), *kept][:REASONS])
    return f"{op:<42} {' '.join(columns)}" + (f" | {reasons}" if reasons else "")


def _reasons(rows: list[Row]) -> list[str]:
    """The most frequent reasons, each with its dtypes."""
    count: collections.Counter = collections.Counter()
    dtypes = collections.defaultdict(set)
    for row in rows:
        if row.place == "host" or row.verdict in SEVERE:
            reason = _reason(row)
            count[reason] += 1
            dtypes[reason].add(SHORT[row.dtype])
    common = sorted(count, key=lambda reason: (-count[reason], reason))[:REASONS]
    return [f"{' '.join(d for d in SHORT.values() if d in dtypes[r])}: {r}" for r in common]


def _without(reasons: str, dtypes: set[str]) -> list[str]:
    """The reasons of a line that hold for others than these dtypes."""
    pairs = [reason.partition(": ") for reason in reasons.split("; ") if reason]
    left = [([d for d in of.split() if d not in dtypes], text) for of, _colon, text in pairs]
    return [f"{' '.join(of)}: {text}" for of, text in left if of]


def _reason(row: Row) -> str:
    text = row.why or row.detail
    text = text.replace(".default", "").replace(" runs on the CPU: ", ": ")
    return text.replace("operand N: ", "").replace("; ", ", ").replace("|", "/")[:110].rstrip()


def read(path: Path = PATH) -> dict[str, str]:
    """Lines by operator; none when there is no table yet."""
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return {line.split()[0]: line for line in lines if line and not line.startswith("#")}


def write(rows: Iterable[Row], ran: Cases, planned: Cases, path: Path = PATH) -> None:
    """Brings the lines of the operators in `ran` up to date."""
    by_op = collections.defaultdict(list)
    for row in rows:
        by_op[row.op].append(row)
    lines = read(path)
    for op, cases in ran.items():
        lines[op] = line(op, by_op[op], cases, planned[op], lines.get(op, ""))
    head = [f"# {text}".rstrip() for text in ("SPDX-License-Identifier: Apache-2.0",
            "Written by `make test-ops`; legend: table.py. Columns: " + ", ".join(FORMS) + ".",
            "Dtypes of a column: " + ", ".join(DTYPES) + ".")]  # fmt: skip
    path.write_text("\n".join([*head, *(lines[op] for op in sorted(lines))]) + "\n")
