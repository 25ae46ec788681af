# SPDX-License-Identifier: Apache-2.0
"""What one run leaves behind: a JSON line per case, a file per operator, so that a run resumes.

A case is an operator in one dtype, one form and one class of shapes. Verdicts, best first:

    right      within the bounds of reference.py
    refused    an error, as on the CPU
    host only  an error, although the CPU computes it
    accepted   a result, although the CPU raises (error inputs), or another class of error
    slow       longer than the limit of a case
    wrong      another number, shape or dtype than the CPU's
    hung       the process had to be killed
    crashed    the process ended by itself
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

# "extended" is float32 with the profile of that name.
DTYPES = ("float16", "bfloat16", "float32", "extended", "int64", "bool")
FORMS = ("eager", "compiled", "backward", "compiled_backward", "in_place", "out", "errors")
CLASSES = ("empty", "scalar", "small", "odd", "sticks")
VERDICTS = ("right", "refused", "host only", "accepted", "slow", "wrong", "hung", "crashed")
FAULTS = ("wrong", "hung", "crashed", "accepted", "slow")


@dataclasses.dataclass
class Row:
    """One case. `place` is "card", "host" or "" (nothing ran); `why` is the reason for the host or
    the text of the error; `error` is the largest error in units of the bound."""

    op: str
    dtype: str
    form: str
    shapes: str
    verdict: str
    place: str = ""
    why: str = ""
    samples: int = 1
    error: float = 0.0
    detail: str = ""

    def key(self) -> tuple[str, str, str]:
        return self.dtype, self.form, self.shapes


def worse(one: str, other: str) -> str:
    return max(one, other, key=VERDICTS.index)


def merge(rows: Iterable[Row]) -> list[Row]:
    """One row for each case: the worst verdict with its detail; "host" wins over "card"."""
    merged: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        known = merged.setdefault(row.key(), row)
        if known is row:
            continue
        if VERDICTS.index(row.verdict) > VERDICTS.index(known.verdict):
            known.verdict, known.detail, known.why = row.verdict, row.detail, row.why
        if row.place == "host" or not known.place or known.place == "card":
            first = known.why if known.place == row.place else ""
            known.place, known.why = row.place, first or row.why or known.why
        known.samples += row.samples
        known.error = max(known.error, row.error)
    return list(merged.values())


class Store:
    """The files of a run below `folder`."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, op: str) -> Path:
        return self.folder / f"{op}.jsonl"

    def write(self, rows: Iterable[Row]) -> None:
        for row in rows:
            with self.path(row.op).open("a") as file:
                file.write(json.dumps(dataclasses.asdict(row)) + "\n")

    def finish(self, op: str, dtype: str, form: str) -> None:
        """Marks all cases of a dtype and form as done, also when there are none."""
        with self.path(op).open("a") as file:
            file.write(json.dumps({"done": [dtype, form]}) + "\n")

    def read(self, op: str) -> tuple[list[Row], set[tuple[str, str]]]:
        """The rows of an operator, and the (dtype, form) pairs that are done."""
        rows, done = [], set()
        if self.path(op).exists():
            for line in self.path(op).read_text().splitlines():
                entry = json.loads(line)
                if "done" in entry:
                    done.add((entry["done"][0], entry["done"][1]))
                else:
                    rows.append(Row(**entry))
        return merge(rows), done

    def all(self) -> list[Row]:
        return [row for path in sorted(self.folder.glob("*.jsonl"))
                for row in self.read(path.name.removesuffix(".jsonl"))[0]]  # fmt: skip
