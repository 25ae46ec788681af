# SPDX-License-Identifier: Apache-2.0
"""What runs on the card, by operator, form, dtype and class of shapes: it may only grow.

A line of ratchet.txt is an operator; a column per form (but error inputs) has an entry per dtype,
separated by commas: the letters of the classes that run on the card, or "-". A run that finds an
entry elsewhere (host, refused, wrong, gone) has lost it and fails; entries are taken out by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .rows import CLASSES, DTYPES, FORMS, Row

PATH = Path(__file__).with_name("ratchet.txt")
LETTER = dict(zip(CLASSES, "esmok", strict=True))
COLUMNS = [form for form in FORMS if form != "errors"]

Entry = tuple[str, str, str, str]  # operator, form, dtype, class


def on_card(rows: Iterable[Row]) -> set[Entry]:
    """The entries that a run shows."""
    return {
        (row.op, row.form, row.dtype, row.shapes)
        for row in rows
        if row.verdict == "right" and row.place == "card" and row.form in COLUMNS
    }


def read(path: Path = PATH) -> set[Entry]:
    """The entries of the file; none when there is no file yet."""
    entries = set()
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
        if line.startswith("#"):
            continue
        op, *columns = line.split()
        for form, column in zip(COLUMNS, columns, strict=True):
            for dtype, letters in zip(DTYPES, column.split(","), strict=True):
                entries |= {(op, form, dtype, c) for c in CLASSES if LETTER[c] in letters}
    return entries


def write(entries: set[Entry], path: Path = PATH) -> None:
    lines = ["# SPDX-License-Identifier: Apache-2.0",
             "# On the card (ratchet.py). Columns: " + ", ".join(COLUMNS) + ".",
             "# Classes: " + ", ".join(f"{LETTER[c]} {c}" for c in CLASSES) + "."]  # fmt: skip
    for op in sorted({entry[0] for entry in entries}):
        columns = [",".join(_letters(entries, op, form, dtype) for dtype in DTYPES)
                   for form in COLUMNS]  # fmt: skip
        lines.append(f"{op:<42} {' '.join(columns)}")
    path.write_text("\n".join(lines) + "\n")


def _letters(entries: set[Entry], op: str, form: str, dtype: str) -> str:
    return "".join(LETTER[c] for c in CLASSES if (op, form, dtype, c) in entries) or "-"


def compare(rows: list[Row], ran: set[tuple[str, str, str]], known: set[Entry]):
    """(lost, gained) entries of a run; `ran` are the (operator, form, dtype) that it covered."""
    shown = on_card(rows)
    expected = {entry for entry in known if entry[:3] in ran}
    return sorted(expected - shown), sorted(shown - known)
