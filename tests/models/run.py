# SPDX-License-Identifier: Apache-2.0
"""The model net: every family in a process of its own, with limits of time and memory.

    python tests/models/run.py [--fresh] [--limit SECONDS] [FAMILY ...]

Results go to build/models/FAMILY.json as they come. A run that was interrupted goes on where it
stopped; a family is tried again when the package, the net or PyTorch has changed (or with --fresh).
A run over all families compares with the committed table (table.json): a step that was "ok" there
must be "ok" now. With SPYRE_BLESS=1 the run writes the table and docs/models.md.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import page
import psutil

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build/models"
GOOD = ("ok", "near tie")


def digest() -> str:
    """Of everything that decides a result: package, library, net, PyTorch."""
    files = [*sorted(Path(__file__).parent.glob("*.py"))]
    files += sorted((ROOT / "python/torch_spyre").rglob("*.py"))
    files += sorted((ROOT / "build/release").rglob("*.so*"))
    total = hashlib.sha256()
    for file in files:
        if file.is_file():
            total.update(file.read_bytes())
    for package in ("torch", "transformers"):
        total.update(_version(package).encode())
    return total.hexdigest()[:16]


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _version(package: str) -> str:
    import importlib.metadata

    return importlib.metadata.version(package)


def read(name: str) -> dict:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _known(name: str, known: str) -> dict:
    """The result of a family, if it is one of this very build; else nothing."""
    result = read(name)
    return result if result.get("digest") == known else {}


def _wanting(name: str, known: str, steps: list[str]) -> tuple[str, ...]:
    """Of the steps, those that are not known; all of them of an unknown family."""
    result = _known(name, known)
    if "fault" in result and result["complete"]:
        return ()
    had = result.get("steps", {})
    return tuple(s for s in steps if s not in had and s in result.get("names", steps))


def _write(name: str, result: dict) -> None:
    path = RESULTS / f"{name}.json"
    staged = path.with_suffix(".part")
    staged.write_text(json.dumps(result, indent=1))
    staged.replace(path)


# ---- one family, in a process of its own


def try_family(name: str, known: str, wanted: tuple[str, ...], seconds: int) -> None:
    """Runs steps of a family and writes the outcome of each as it comes."""
    import families
    import steps

    log = os.open(RESULTS / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    family = families.FAMILIES[name]
    before = _known(name, known)
    result = {"digest": known, "group": family.group, "steps": before.get("steps", {})}
    result |= {"names": steps.names(family), "complete": False}

    def done(step: str, outcome: steps.Outcome) -> None:
        result["steps"][step] = dataclasses.asdict(outcome)
        _write(name, result)

    try:
        steps.run(family, done, wanted)
    except Exception as error:
        result["fault"] = f"{type(error).__name__}: {error}"[:300]
    _write(name, result | {"complete": True})


# ---- all of them


def _forks() -> multiprocessing.context.BaseContext:
    """Processes that have PyTorch and transformers from the start, and no device yet."""
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["families", "steps"])
    return forks


def _start(name: str, known: str, wanted: tuple[str, ...], options, forks) -> None:
    started = time.monotonic()
    process = forks.Process(target=try_family, args=(name, known, wanted, options.limit))
    process.start()
    end = _wait(process, options.memory * 2**30, started + 10 * options.limit)
    nothing = {"digest": known, "group": "", "names": [], "complete": False, "steps": {}}
    result = _known(name, known) or nothing
    if not result["complete"]:
        result["fault"] = f"{end} after {len(result['steps'])} steps"
        _write(name, result | {"complete": True})
    print(page.line_of(name, result), f"[{time.monotonic() - started:.0f} s]", flush=True)


def _wait(process, bytes_at_most: float, until: float) -> str:
    """How the process ended: by itself, or killed for its memory or its time. Its address space
    says nothing (the card reserves 128 GiB), so what is resident is watched."""
    watched = psutil.Process(process.pid)
    while process.is_alive():
        with contextlib.suppress(psutil.NoSuchProcess):
            if watched.memory_info().rss > bytes_at_most:
                process.kill()
                return f"killed: more than {bytes_at_most / 2**30:.0f} GiB resident"
        if time.monotonic() > until:
            process.kill()
            return "killed: out of time"
        process.join(0.2)
    return f"the process ended with {process.exitcode}"


def regressions(table: dict, results: dict, steps=page.STEPS) -> list[str]:
    """Steps that are good in the committed table and are not any more."""
    found = []
    for name, row in table.items():
        for step, outcome in row["steps"].items():
            now = results.get(name, {}).get("steps", {}).get(step, {"status": "missing"})
            if outcome["status"] in GOOD and now["status"] not in GOOD and step in steps:
                found.append(f"{name}: {step}: {now['status']} {now.get('message', '')}".rstrip())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--steps", help="comma list; all by default")
    parser.add_argument("--fresh", action="store_true", help="try again what is known")
    parser.add_argument("--limit", type=int, default=300, help="seconds of CPU a family")
    parser.add_argument("--memory", type=float, default=6.0, help="GiB resident a family")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    import families

    known, every = digest(), list(families.FAMILIES)
    names = options.families or every
    unknown = sorted(set(names) - set(every))
    if unknown:
        parser.error(f"no such family: {', '.join(unknown)}")
    forks, tried = _forks(), options.steps.split(",") if options.steps else list(page.STEPS)
    for name in names:
        if options.fresh:
            (RESULTS / f"{name}.json").unlink(missing_ok=True)
        if wanted := _wanting(name, known, tried):
            _start(name, known, wanted, options, forks)
    return _conclude({name: read(name) for name in names}, names == every, tried)


def _conclude(results: dict, complete: bool, steps: list[str]) -> int:
    if complete and os.environ.get("SPYRE_BLESS") == "1":
        page.write(results, _commit())
        print(f"wrote {page.TABLE.relative_to(ROOT)} and {page.PAGE.relative_to(ROOT)}")
        return 0
    table = page.table()
    rows = {name: row for name, row in table.items() if name in results}
    found = regressions(rows, results, steps)
    missing = [name for name in results if name not in table]
    for fault in [*found, *(f"{name}: not in the table: SPYRE_BLESS=1" for name in missing)]:
        print(fault, file=sys.stderr)
    print(f"{len(results)} families, {len(found)} steps worse than the table")
    return 1 if found or missing else 0


if __name__ == "__main__":
    sys.exit(main())
