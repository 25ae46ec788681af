# SPDX-License-Identifier: Apache-2.0
"""Two builds of this project in turns on one host: what a change did to speed.

    python bench/turns.py BASE [--only NAME | --row LABEL ...] [--turns 5] [--json FILE]

BASE is the other checkout, built by its own `make build`. Each build has one process that prepares
a row, then both are asked in turns for the best time of a call; the ratio of a row is the median
over the turns of `base / this`: above 1, this build is faster. A row of products fails below
0.95, any other row below 0.90, and the program then ends with status 1.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator

PRODUCT_FLOOR, MEMORY_FLOOR = 0.95, 0.90
PRODUCTS = ("matmul", "bmm", "attention", "feed-forward", "MiniLM")
WIDE = 36

Rows = dict[str, dict[str, float]]


def _rows() -> Iterator[tuple[str, Callable[[], Callable[[], object]]]]:
    """(name, what prepares the row and returns the call to time)."""
    import breadth
    import copies
    import dispatch
    import minilm
    import operations

    for name, case in operations.CASES.items():
        yield name, lambda case=case: operations.card_call(case)[0]
    for name, function, variant in breadth.rows():
        yield name, lambda f=function, v=variant: breadth.card_call(f, v)[0]
    for batch, length in minilm.SHAPES:
        yield f"MiniLM {batch}x{length}", lambda b=batch, n=length: minilm.card_call(b, n)[0]
    for name in dispatch.CASES:
        yield f"eager {name}", lambda name=name: dispatch.card_call(name)
    yield f"compiled, {dispatch.MANY} operands", lambda: dispatch.card_call("compiled")
    for size, elements in copies.ELEMENTS.items():
        for dtype in copies.DTYPES:
            yield (
                f"copy {size} {str(dtype).removeprefix('torch.')}",
                lambda n=elements, dtype=dtype: copies.card_call(n, dtype),
            )


def _work() -> None:
    """The process of one build: a line in (`names`, `prepare NAME`, `measure`), a line out."""
    import harness
    import torch

    answers, sys.stdout = sys.stdout, sys.stderr
    torch.set_grad_enabled(False)
    harness.keep_freed_pages()
    rows = dict(_rows())
    call: Callable[[], object] = lambda: None  # noqa: E731
    for line in sys.stdin:
        command, _, name = line.strip().partition(" ")
        answer: object = "ready"
        if command == "names":
            answer = list(rows)
        elif command == "prepare":
            call = rows[name]()
            call()
        else:
            answer = harness.best_of_turn(call)
        print(json.dumps(answer), file=answers, flush=True)


class Build:
    """The process that times one checkout's build."""

    def __init__(self, checkout: pathlib.Path):
        python = checkout / ".venv" / "bin" / "python"
        if not python.exists():
            raise SystemExit(f"bench/turns.py: {checkout}: no .venv there: run its `make build`")
        environment = os.environ | {"SPYRE_CACHE": "0"}
        self.process = subprocess.Popen(
            [python, __file__, "--work"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def ask(self, command: str):
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench/turns.py: the build of {self.process.args} ended: {command}")
        return json.loads(line)


def _floor(name: str) -> float:
    return PRODUCT_FLOOR if any(word in name for word in PRODUCTS) else MEMORY_FLOOR


def _compare(base: Build, this: Build, names: list[str], turns: int) -> Rows:
    results: Rows = {}
    print(f"{'':{WIDE}s}{'base us':>12s}{'this us':>12s}{'ratio':>8s}")
    for name in names:
        for build in (base, this):
            build.ask(f"prepare {name}")
        pairs = [(base.ask("measure"), this.ask("measure")) for _ in range(turns)]
        row = {
            "base us": 1e6 * statistics.median(before for before, _ in pairs),
            "this us": 1e6 * statistics.median(now for _, now in pairs),
            "ratio": statistics.median(before / now for before, now in pairs),
        }
        results[name] = row
        mark = "" if row["ratio"] >= _floor(name) else f"  below {_floor(name)}"
        cells = f"{row['base us']:12.1f}{row['this us']:12.1f}{row['ratio']:8.2f}"
        print(f"{name:{WIDE}s}{cells}{mark}", flush=True)
    return results


def main() -> int:
    if sys.argv[1:] == ["--work"]:
        _work()
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=pathlib.Path, help="the other checkout, built")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--row", nargs="+", default=[], help="the rows of these names, no others")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows there")
    options = parser.parse_args()
    here = pathlib.Path(__file__).parents[1]
    base, this = Build(options.base), Build(here)
    names = options.row or [name for name in this.ask("names") if options.only in name]
    results = _compare(base, this, names, options.turns)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return int(any(row["ratio"] < _floor(name) for name, row in results.items()))


if __name__ == "__main__":
    sys.exit(main())
