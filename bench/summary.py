# SPDX-License-Identifier: Apache-2.0
"""The table of README.md: some rows of bench/results, one table a processor.

    python bench/summary.py            writes it between its marks
    python bench/summary.py --check    fails when README.md has another one

Numbers are how many times faster the emulated card is than PyTorch's own CPU kernels in the same
run (below 1: slower)."""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
README = ROOT / "README.md"
BEGIN = "<!-- bench/summary.py: begin -->\n"
END = "<!-- bench/summary.py: end -->\n"

ROWS = {
    "MiniLM 32x128": "all-MiniLM-L6-v2, 32 sentences of 128",
    "MiniLM 1x128": "all-MiniLM-L6-v2, one sentence of 128",
    "matmul 2048^3": "product 2048 x 2048 x 2048",
    "matmul 1x4096x4096": "product 1 x 4096 x 4096",
    "attention 8x12x128x64": "attention 8 x 12 x 128 x 64",
    "softmax 4096x2048": "softmax 4096 x 2048",
    "layer_norm 4096x1024": "layer_norm 4096 x 1024",
    "gelu 4096x4096": "gelu 4096 x 4096",
    "add 4096x4096": "add 4096 x 4096",
}
OTHERS = {"eager", "large"}  # tables of rows that others have, too
COLUMNS = {"x fp32": "fp32", "x fp16": "fp16", "x bf16": "bf16", "x inductor": "Inductor (fp32)"}


def describe(host: dict) -> str:
    """A processor in words: its name, what it has, its key in bench/results."""
    parts = (host["processor"], host["capability"], f"{host['threads']} threads", host["model"])
    return ", ".join(parts) + f" (PyTorch {host['torch']}, commit {host['commit']})"


def table(results: dict) -> list[str]:
    """The rows that a run has, as Markdown."""
    tables = [rows for name, rows in results["tables"].items() if name not in OTHERS]
    measured = {row: values for rows in tables for row, values in rows.items()}
    lines = [
        describe(results["host"]) + ":",
        "",
        "| times as fast as PyTorch on the CPU in | " + " | ".join(COLUMNS.values()) + " |",
        "| --- |" + " ---: |" * len(COLUMNS),
    ]
    for row, name in ROWS.items():
        if row in measured:
            cells = [measured[row].get(column) for column in COLUMNS]
            texts = ["" if cell is None else f"{cell:.2f}" for cell in cells]
            lines.append(f"| {name} | " + " | ".join(texts) + " |")
    return lines


def summary(folder: pathlib.Path) -> str:
    """The tables of all processors whose results are in `folder`."""
    lines: list[str] = []
    for path in sorted(folder.glob("*.json")):
        lines += [*table(json.loads(path.read_text())), ""]
    return "\n".join(lines)


def replaced(page: str, text: str) -> str:
    """The page with `text` between the marks. ValueError where they are not there once each."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"README.md must contain {BEGIN.strip()} and {END.strip()} once each")
    before, rest = page.split(BEGIN)
    return before + BEGIN + text + END + rest.split(END)[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    page = README.read_text()
    wanted = replaced(page, summary(RESULTS))
    if not parser.parse_args().check:
        README.write_text(wanted)
    elif page != wanted:
        print("README.md: its table is not that of bench/results: run bench/summary.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
