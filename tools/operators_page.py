#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operators.md from tests/ops/operators.txt, the table of the operator net.

    tools/operators_page.py [--check]

With --check nothing is written; exit status 1 when the page is not what would be written.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests/ops/operators.txt"
PAGE = ROOT / "docs/operators.md"
EXCLUSIONS = ROOT / "tests/ops/exclusions.txt"
DTYPES = ("f16", "bf16", "f32", "x32", "i64", "bool")
SETS = {"16": (0, 1), "x32": (3,)}  # what exclusions are of
FORMS = ("eager", "compiled", "backward", "compiled backward", "in place", "`out=`", "errors")

HEAD = """# Operators

PyTorch's operator database (`op_db` of PyTorch 2.13, {count} entries) on the device, as
[`make test-ops`](testing.md#the-operator-net) found it at the last run of each cell. Every entry
is run on samples of the database and on the same several sticks wide, against float64.
`tools/operators_page.py` writes this page.

| sign | |
| --- | --- |
| C | computed on the card |
| c | on the card for some classes of shapes, on the host for others |
| h | on the host, with a `FallbackWarning` |
| m | made on the host of no tensor (constants, random numbers), without a warning |
| R | refused, as by PyTorch on the CPU |
| x | refused, although the CPU computes it |
| a | bad arguments raise another class of error than on the CPU, or none |
| = | bad arguments raise what they raise on the CPU |
| W, S, ! | wrong; slower than the limit of a case; hung or crashed |
| - | PyTorch has no such form |
| ? | not run yet |

A column has a sign for each of {dtypes}; x32 is float32 with the
[profile `extended`](python.md#float32).

What is right follows the published rules of the card's formats
([special values](special-values.md)): in 16 bits a NaN is positive infinity, bfloat16 ends at 2^33,
both forms of `gelu` are one. Refused although the CPU computes it: arithmetic with compressed
sparse tensors (`sparse_mm_reduce`, `sparse_sampled_addmm`); that of coordinates runs on the host.
As on every device, the indices of `tensor_split` lie on the CPU.

## In numbers

| form | {signs} |
| --- |{rule}
{numbers}

## Without any fallback

Eager and compiled, forward and backward, in every sample of the database, outside of the exclusions
below; forward alone, of all operators:

| | operators | without a fallback | | forward | eager | compiled | excluded |
| --- | --- | --- | --- | --- | --- | --- | --- |
{shares}

The exclusions are `tests/ops/exclusions.txt`, at most 90 of each line; one that is not needed any
more fails the check of this page.

| excluded | of | why |
| --- | --- | --- |
{excluded}

## Every operator

| operator | {forms} | why not on the card |
| --- |{form_rule} --- |
{lines}
"""
SIGNS = "CcmhRxWS!?"


def parse(text: str) -> list[tuple[str, list[str], str]]:
    """(operator, a string of signs per form, reasons) of each line."""
    rows = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            cells, _bar, reasons = line.partition(" | ")
            op, *forms = cells.split()
            rows.append((op, forms, reasons))
    return rows


def is_good(cell: str, dtypes: Sequence[int]) -> bool:
    """Whether a form falls back in no sample of these dtypes, as far as it exists and has run."""
    return all(cell[dtype] in "CmR-" for dtype in dtypes)


def share(rows: list[tuple[str, list[str], str]], of: str, excluded: set[str]) -> str:
    """The line of a set of dtypes in the table of the section on fallbacks."""
    dtypes = SETS[of]
    known = [row for row in rows if any(form[d] != "-" for d in dtypes for form in row[1][:4])]
    good = {op for op, forms, _why in known if all(is_good(f, dtypes) for f in forms[:4])}
    needless = sorted(good & excluded)
    unknown = sorted(excluded - {op for op, _forms, _why in known})
    if needless or unknown or len(excluded) > 90:
        raise SystemExit(
            f"exclusions of {of}: needless {needless}, unknown {unknown}, {len(excluded)}"
        )
    outside = [op for op, _forms, _why in known if op not in excluded]
    found = sum(op in good for op in outside)
    forward = [forms for _op, forms, _why in known if forms[0][dtypes[0]] != "-"]
    eager, compiled = (sum(is_good(forms[i], dtypes) for forms in forward) for i in (0, 1))
    names = ", ".join(DTYPES[d] for d in dtypes)
    return (
        f"| {names} | {len(outside)} | {found} | {100 * found / len(outside):.1f} % "
        f"| {len(forward)} | {eager} | {compiled} | {len(excluded)} |"
    )


def read_exclusions(text: str) -> dict[str, tuple[str, list[str]]]:
    """Operators with the reason that stands above them, and the sets of dtypes that they are
    excluded of: `# reason`, then a name a line, and behind it a set when it is not all."""
    found = dict[str, tuple[str, list[str]]]()
    reason = ""
    for line in text.splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            op, *sets = line.split()
            found[op] = reason, sets or list(SETS)
    return found


def page(text: str) -> str:
    """The page for a table."""
    rows = parse(text)
    numbers = []
    for index, form in enumerate(FORMS[:-1]):
        count = collections.Counter("".join(forms[index] for _op, forms, _why in rows))
        numbers.append(f"| {form} | " + " | ".join(str(count[sign]) for sign in SIGNS) + " |")
    lines = [
        f"| `{op}` | " + " | ".join(f"`{form}`" for form in forms) + f" | {why} |"
        for op, forms, why in rows
    ]
    excluded = read_exclusions(EXCLUSIONS.read_text())
    shares = [
        share(rows, of, {op for op, (_why, sets) in excluded.items() if of in sets}) for of in SETS
    ]
    return HEAD.format(
        count=len(rows),
        dtypes=", ".join(DTYPES),
        signs=" | ".join(SIGNS),
        rule=" --- |" * len(SIGNS),
        numbers="\n".join(numbers),
        forms=" | ".join(FORMS),
        form_rule=" --- |" * len(FORMS),
        lines="\n".join(lines),
        shares="\n".join(shares),
        excluded="\n".join(
            f"| `{op}` | {' '.join(sets)} | {why} |" for op, (why, sets) in sorted(excluded.items())
        ),
    )


def main(words: list[str]) -> int:
    wanted = page(TABLE.read_text())
    if "--check" not in words:
        PAGE.write_text(wanted)
        return 0
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    print("docs/operators.md is not what tools/operators_page.py writes", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
