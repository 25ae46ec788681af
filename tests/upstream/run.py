# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own tests on the device and says how many pass, by file.

    python -m upstream.run [--bless] [CONFIG.yaml ...]

All of configs/ by default. What a configuration lists as mandatory must pass. With --bless the
configurations list what passes in every dtype, and docs/pytorch-tests.md is written.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
from pathlib import Path

from . import config, page, plugin

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "build/upstream"
LIMIT_S = 1800  # of a file


def run_file(path: Path, file: config.File) -> dict[str, tuple[str, str]]:
    """(outcome, reason) by test; what ends the process is "crashed" and is not tried again."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    results = RESULTS / f"{file.path.stem}.jsonl"
    results.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE.parent),
        "PYTORCH_TEST_CONFIG": str(path),
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "privateuse1",
        "UPSTREAM_RESULTS": str(results),
    }
    while True:
        # No conftest.py: one of another version asks for hooks that pytest has no more.
        command = [sys.executable, "-m", "pytest", "-q", "-p", "upstream.plugin", "--noconftest"]
        command += ["-p", "no:cacheprovider", "--tb=short", "--rootdir", str(file.path.parent)]
        command += [f"--deselect={file.path.name}::{test}" for test in _seen(results)]
        done = _ended(command + [str(file.path)], file.path.parent, environment)
        found, started = read(results)
        left = [test for test in started if test not in found]
        for test in left:
            with results.open("a") as out:
                out.write(json.dumps({"test": test, "outcome": "crashed", "why": done}) + "\n")
        if not left:
            return read(results)[0]


def _ended(command: list[str], folder: Path, environment: dict) -> str:
    with (RESULTS / "pytest.log").open("a") as log:
        try:
            done = subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log,
                                  timeout=LIMIT_S)  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"more than {LIMIT_S} s"
    return f"exit status {done.returncode}"


def _seen(results: Path) -> list[str]:
    return list(read(results)[0]) if results.exists() else []


def read(results: Path) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """(outcomes by test, tests that have started)."""
    found: dict[str, tuple[str, str]] = {}
    started = []
    for line in results.read_text().splitlines() if results.exists() else []:
        entry = json.loads(line)
        if "start" in entry:
            started.append(entry["start"])
        elif found.get(entry["test"], ("passed",))[0] == "passed":
            found[entry["test"]] = entry["outcome"], entry["why"]
    return found, started


def mandatory(found: dict[str, tuple[str, str]]) -> list[str]:
    """Generic names of tests that pass in at least one dtype and fail in none."""
    outcomes = collections.defaultdict(set)
    for test, (outcome, _why) in found.items():
        outcomes[plugin.names(test)[0]].add(outcome)
    return sorted(name for name, seen in outcomes.items() if "passed" in seen
                  and seen <= {"passed", "skipped"})  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="*", type=Path)
    parser.add_argument("--bless", action="store_true")
    options = parser.parse_args()
    root = os.environ.get("PYTORCH_ROOT") or os.environ.get("TORCH_ROOT")
    if not root or not Path(root, "test").is_dir():
        print("SKIPPED: PyTorch's own tests: PYTORCH_ROOT names no checkout of PyTorch "
              f"({root or 'unset'})", file=sys.stderr)  # fmt: skip
        return 0
    lost = 0
    for path in options.configs or sorted(HERE.glob("configs/*.yaml")):
        for file in config.load(path.resolve()):
            found = run_file(path.resolve(), file)
            lost += _tell(file, found)
            if options.bless:
                page.bless(path, file, found, mandatory(found), Path(root))
    if options.bless:
        page.write()
    return 1 if lost else 0


def _tell(file: config.File, found: dict[str, tuple[str, str]]) -> int:
    """Prints the counts of a file and what fails although it must pass; how many those are."""
    counts = collections.Counter(outcome for outcome, _why in found.values())
    print(f"{file.path.name}: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))
    lost = 0
    for test, (outcome, why) in found.items():
        generic, whole, _dtypes = plugin.names(test)
        bad = outcome in ("failed", "crashed")
        if bad and file.mode(generic, whole) == "mandatory_success":
            print(f"  {outcome}: {test}: {why}")
            lost += 1
    if not found:
        print(f"  no test ran: {RESULTS / 'pytest.log'}")
    return lost + (not found)


if __name__ == "__main__":
    sys.exit(main())
