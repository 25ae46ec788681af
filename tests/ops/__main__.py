# SPDX-License-Identifier: Apache-2.0
"""Runs the operator net: see the package."""

from __future__ import annotations

import argparse
import collections
import os
import sys
from pathlib import Path

from . import ratchet, rows, run, table, worker


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ops", description=__doc__)
    parser.add_argument("--ops", default="", help="names, or beginnings with *, comma separated")
    parser.add_argument("--dtypes", default=",".join(rows.DTYPES))
    parser.add_argument("--forms", default=",".join(rows.FORMS))
    parser.add_argument("--folder", type=Path, default=Path("build/ops"))
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--bless", action="store_true", help="new entries join the ratchet")
    parser.add_argument("--table", action="store_true", help="write operators.txt")
    return parser.parse_args(words)


def chosen(names: list[str], patterns: str) -> list[str]:
    """The operators that a list of names and beginnings means; all for an empty one."""
    wanted = [pattern for pattern in patterns.split(",") if pattern]
    if not wanted:
        return names
    found = [
        name
        for name in names
        if any(name == p or (p.endswith("*") and name.startswith(p[:-1])) for p in wanted)
    ]
    if not found:
        sys.exit(f"ops: no operator of the database matches {patterns}")
    return found


def main(words: list[str]) -> int:
    """Runs what is asked for; 1 when there are faults or an entry of the ratchet is lost."""
    options = arguments(words)
    database = worker.load()
    names = chosen(sorted(database), options.ops)
    dtypes, forms = options.dtypes.split(","), options.forms.split(",")
    run.run(options.folder, names, dtypes, forms, options.jobs)
    store = rows.Store(options.folder)
    found, cases = [], {}
    for name in names:
        of_op, cases[name] = store.read(name)
        found += of_op
    faults = print_faults(found)
    ran = {(name, form, dtype) for name in names for dtype, form in cases[name]}
    lost, gained = ratchet.compare(found, ran, ratchet.read())
    print_entries("lost", lost)
    print_entries("may be added (--bless)", gained)
    if options.bless:
        ratchet.write(ratchet.read() | set(gained))
    if options.table:
        every = {name: set(worker.planned(database[name], rows.DTYPES, rows.FORMS))
                 for name in names}  # fmt: skip
        table.write(found, cases, every)
    return 1 if faults or lost else 0


def print_faults(found: list[rows.Row]) -> int:
    """Prints every case that is neither right nor refused, and counts of all verdicts."""
    faults = [row for row in found if row.verdict in rows.FAULTS]
    for row in faults:
        print(f"{row.verdict}: {row.op} {row.dtype} {row.form} {row.shapes} {row.why} {row.detail}")
    counts = collections.Counter(row.verdict for row in found)
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in rows.VERDICTS))
    return len(faults)


def print_entries(what: str, entries: list[ratchet.Entry]) -> None:
    """Entries of the ratchet, a line for each operator and form."""
    lines = collections.defaultdict(list)
    for op, form, dtype, shapes in entries:
        lines[op, form].append(f"{dtype}/{shapes}")
    for (op, form), cells in lines.items():
        print(f"ratchet, {what}: {op} {form} {' '.join(cells)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
