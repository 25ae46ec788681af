# SPDX-License-Identifier: Apache-2.0
"""Ratios of a run beside the committed results of the same processor. Advice for the reader:
machines are noisy, so nothing fails."""

import json
import pathlib

RESULTS = pathlib.Path(__file__).parent / "results"
TOLERANCE = 0.85  # a ratio below this part of the committed one is reported


def committed(processor: str) -> pathlib.Path | None:
    """The results of a processor (host.processor_key()); None when there are none."""
    path = RESULTS / f"{processor}.json"
    return path if path.exists() else None


def ratios(results: dict) -> dict[str, float]:
    """`table: row / column` -> ratio, where larger is better for the card. Tables share rows."""
    return {
        f"{table}: {row} / {column}": value
        for table, rows in results["tables"].items()
        for row, cells in rows.items()
        for column, value in cells.items()
        if column.startswith("x ")
    }


def worse(now: dict, before: dict) -> list[tuple[str, float, float]]:
    """(table: row / column, ratio before, ratio now) of what fell by more than the tolerance."""
    old = ratios(before)
    return [
        (name, old[name], value)
        for name, value in ratios(now).items()
        if name in old and value < TOLERANCE * old[name]
    ]


def report(results: dict) -> None:
    processor = results["host"]["model"]
    path = committed(processor)
    if path is None:
        print(f"\nNo results of {processor} in bench/results to compare with")
        return
    fallen = worse(results, json.loads(path.read_text()))
    print(f"\nRatios below {TOLERANCE:.0%} of {path.name}: {len(fallen)}")
    for name, before, now in fallen:
        print(f"  {name:54s}{before:8.2f} -> {now:.2f}")
