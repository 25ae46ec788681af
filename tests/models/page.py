# SPDX-License-Identifier: Apache-2.0
"""docs/models.md, made of the committed table of results."""

from __future__ import annotations

import collections
import json
from importlib.metadata import version as version_of
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).parent / "table.json"
PAGE = ROOT / "docs/models.md"

_COLUMNS = {
    "eager": "eager",
    "compiled": "compiled",
    "generate": "generate",
    "generate_static": "static cache",
    "train": "training",
    "train_compiled": "compiled",
    "save": "files",
}
STEPS = tuple(_COLUMNS)
_MARKS = {"ok": "yes", "near tie": "yes*", "wrong": "**wrong**", "error": "**no**"}

_HEAD = """# Models

What models of `transformers` {version} do on the device, tried with the commit {build}.
`SPYRE_BLESS=1 make test-models` makes this page and `tests/models/table.json`; `make test` checks
that they agree.

Every model is a small one of its family, made in code with random weights (`tests/models`). It runs
in float16; the reference is PyTorch on the CPU in float32, on the weights that the card holds.

| step | what must hold |
| --- | --- |
| eager, compiled | the result is right |
| generate | `generate()`, greedy, with the default cache, gives the tokens of the reference |
| static cache | with `cache_implementation="static"` and `torch.compile(model.forward)`, too |
| training, compiled | gradients, and the loss after one step of SGD; dropout off |
| files | `save_pretrained`, `torch.save` and back: the same values and layouts |

A result is right when its error (relative, root mean square) is within three times what rounding
the result of every module once does to the reference; gradients likewise. `yes*` with tokens: a row
parts from the reference where two tokens score alike within rounding; they are listed below. `?`:
not tried yet; empty: the family has no such step.

The last columns: cosine of the compiled result with the reference; its error and what it may be;
operators that the host computed when compiled, and in an eager training step.
"""


def table() -> dict:
    """The committed results, by family; nothing when there is no table yet."""
    return json.loads(TABLE.read_text())["families"] if TABLE.exists() else {}


def line_of(name: str, result: dict) -> str:
    """One line for people who watch."""
    said = [f"{step} {_brief(outcome)}" for step, outcome in result["steps"].items()]
    return f"{name}: {', '.join([*said, *filter(None, [result.get('fault')])])}"


def _brief(outcome: dict) -> str:
    message = f" ({outcome['message']})" if outcome["message"] else ""
    return outcome["status"] + message


def write(results: dict, build: str) -> None:
    """Writes the table and the page; `results` by family, in order of the page, of the commit
    `build`."""
    rows = {}
    for name, result in results.items():
        steps = {step: _rounded(outcome) for step, outcome in result["steps"].items()}
        rows[name] = {"group": result["group"], "names": result["names"], "steps": steps}
        if result.get("fault"):
            rows[name]["fault"] = result["fault"]
    version = version_of("transformers")
    lines = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
    head = f'{{"transformers": "{version}", "build": "{build}", "families": {{\n'
    TABLE.write_text(head
                     + ",\n".join(lines) + "\n}}\n")  # fmt: skip
    PAGE.write_text(render(json.loads(TABLE.read_text())))


def _rounded(outcome: dict) -> dict:
    """Numbers as far as they are the same on every host."""
    kept = {key: value for key, value in outcome.items() if value not in (None, "", [])}
    for key, digits in (("cosine", 4), ("error", 4), ("bound", 4)):
        if key in kept:
            kept[key] = round(kept[key], digits)
    return kept


def render(table: dict) -> str:
    """The page of a table."""
    families = table["families"]
    parts = [_HEAD.format(version=table["transformers"], build=table["build"]), _summary(families)]
    for group in dict.fromkeys(row["group"] for row in families.values()):
        rows = {name: row for name, row in families.items() if row["group"] == group}
        parts.append(_section(group, rows))
    parts += [_ties(families), _faults(families), _host(families)]
    return "\n".join(part for part in parts if part)


def _summary(families: dict) -> str:
    lines = ["| step | families | right |", "| --- | --- | --- |"]
    for step in _COLUMNS:
        outcomes = [
            row["steps"][step]["status"] for row in families.values() if step in row["steps"]
        ]
        good = sum(status in ("ok", "near tie") for status in outcomes)
        lines.append(f"| {step.replace('_', ', ')} | {len(outcomes)} | {good} |")
    return "\n".join([f"{len(families)} families:", "", *lines, "", _nodes(families), ""])


def _nodes(families: dict) -> str:
    """How much of the compiled forward passes is the card's."""
    passes = [row["steps"].get("compiled", {}) for row in families.values()]
    nodes, host = (sum(p.get(key, 0) for p in passes) for key in ("nodes", "host_nodes"))
    whole = sum(not p.get("host_ops") for p in passes)
    share = 100 * (1 - host / max(nodes, 1))
    return (
        f"Of {nodes:,} nodes of the compiled forward passes {share:.1f} % "
        f"are the card's;\n{whole} families have no operator on the host."
    )


def _section(group: str, rows: dict) -> str:
    titles = [*_COLUMNS.values(), "cosine", "error (bound)", "host, compiled", "host, training"]
    lines = [f"## {group.capitalize()}", "", f"| family | {' | '.join(titles)} |"]
    lines.append("| --- " * (len(titles) + 1) + "|")
    for name, row in rows.items():
        steps = row["steps"]
        marks = [_mark(row, step) for step in _COLUMNS]
        measured = steps.get("compiled", {})
        numbers = ["", ""]
        if "error" in measured:
            numbers = [f"{measured['cosine']:.4f}",
                       f"{measured['error']:.4f} ({measured['bound']:.4f})"]  # fmt: skip
        hosts = [_count(steps, "compiled"), _count(steps, "train")]
        lines.append(f"| {name} | {' | '.join([*marks, *numbers, *hosts])} |")
    return "\n".join([*lines, ""])


def _mark(row: dict, step: str) -> str:
    """Of a step: what became of it, "?" when it was not tried, nothing when there is none."""
    if step in row["steps"]:
        return _MARKS[row["steps"][step]["status"]]
    return "?" if step in row["names"] else ""


def _count(steps: dict, step: str) -> str:
    return str(len(steps[step].get("host_ops", []))) if step in steps else ""


def _ties(families: dict) -> str:
    lines = [
        f"| {name} | {_COLUMNS[step]} | {outcome['message']} |"
        for name, row in families.items()
        for step, outcome in row["steps"].items()
        if outcome["status"] == "near tie"
    ]
    if not lines:
        return ""
    return "\n".join(["## Near ties", "", "| family | step | where |", "| --- | --- | --- |",
                      *lines, ""])  # fmt: skip


def _faults(families: dict) -> str:
    lines = []
    for name, row in families.items():
        if row.get("fault"):
            lines.append(f"| {name} | | {_cell(row['fault'])} |")
        for step, outcome in row["steps"].items():
            if outcome["status"] in ("wrong", "error"):
                said = _cell(outcome.get("message", outcome["status"]))
                lines.append(f"| {name} | {step.replace('_', ', ')} | {said} |")
    if not lines:
        return ""
    return "\n".join(["## What fails", "", "| family | step | why |", "| --- | --- | --- |", *lines,
                      ""])  # fmt: skip


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _host(families: dict) -> str:
    """Operators by the number of families in which the host computes them."""
    counts: dict[str, collections.Counter] = {}
    for row in families.values():
        for step, outcome in row["steps"].items():
            for op in outcome.get("host_ops", []):
                counts.setdefault(op, collections.Counter())[step] += 1
    shown = ("eager", "compiled", "generate", "train", "train_compiled")
    lines = ["## On the host", "", "In how many families the host computes an operator, by step.",
             "", f"| operator | {' | '.join(s.replace('_', ', ') for s in shown)} |",
             "| --- " * (len(shown) + 1) + "|"]  # fmt: skip
    for op in sorted(counts, key=lambda op: (-counts[op].total(), op)):
        numbers = [str(counts[op][step] or "") for step in shown]
        lines.append(f"| `{op}` | {' | '.join(numbers)} |")
    return "\n".join([*lines, ""])
