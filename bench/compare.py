# SPDX-License-Identifier: Apache-2.0
"""Ratios of a run beside those of the newest committed results. Advice for the reader: machines
differ and are noisy, so nothing fails."""

import json
import pathlib

RESULTS = pathlib.Path(__file__).parent / "results"
TOLERANCE = 0.85  # a ratio below this part of the committed one is reported


def newest() -> pathlib.Path | None:
    """The newest of bench/results by file name, which begins with a date."""
    return max(RESULTS.glob("*.json"), default=None, key=lambda path: path.name)


def ratios(results: dict) -> dict[str, float]:
    """`row / column` -> ratio, where larger is better for the card."""
    return {
        f"{row} / {column}": value
        for table in results["tables"].values()
        for row, cells in table.items()
        for column, value in cells.items()
        if column.startswith("x ")
    }


def worse(now: dict, before: dict) -> list[tuple[str, float, float]]:
    """(row / column, ratio before, ratio now) of what fell by more than the tolerance."""
    old = ratios(before)
    return [
        (name, old[name], value)
        for name, value in ratios(now).items()
        if name in old and value < TOLERANCE * old[name]
    ]


def report(results: dict) -> None:
    path = newest()
    if path is None:
        return
    fallen = worse(results, json.loads(path.read_text()))
    print(f"\nRatios below {TOLERANCE:.0%} of {path.name}: {len(fallen)}")
    for name, before, now in fallen:
        print(f"  {name:44s}{before:8.2f} -> {now:.2f}")
