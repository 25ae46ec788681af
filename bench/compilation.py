# SPDX-License-Identifier: Apache-2.0
"""Time to the first result and peak memory, each in a process of its own: with empty caches (cold)
and again with the caches that the first process left (warm). Imports are not counted."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from harness import Table

WORKER = pathlib.Path(__file__).with_name("compilation_worker.py")
MODELS = ("add", "softmax", "encoder layer", "MiniLM")
COLUMNS = ["spyre cold", "spyre warm", "ind. cold", "ind. warm", "cold ratio", "warm ratio"]
STAGES = ("graph", "front", "back")


def run(only: str) -> dict[str, dict[str, float]]:
    stages = [f"{stage} ms" for stage in STAGES]
    table = Table("torch.compile, seconds to the first result", [*COLUMNS, *stages], width=11)
    for model in MODELS:
        if only in f"compile {model}":
            table.add(f"compile {model}", _measure(model))
    return table.rows


def memory(only: str) -> dict[str, dict[str, float]]:
    columns = ["spyre MiB", "eager MiB", "induct. MiB", "of eager"]
    table = Table("Peak resident memory of MiniLM 32x128, above the imports", columns, width=12)
    if only in "memory MiniLM":
        row = {
            column: _work("MiniLM 32x128", backend, os.environ.copy())["peak_mib"]
            for column, backend in zip(columns[:-1], ("spyre", "eager", "inductor"), strict=True)
        }
        row["of eager"] = row["spyre MiB"] / row["eager MiB"]
        table.add("memory MiniLM 32x128", row)
    return table.rows


def _measure(model: str) -> dict[str, float]:
    row: dict[str, float] = {}
    for backend, short in (("spyre", "spyre"), ("inductor", "ind.")):
        with tempfile.TemporaryDirectory() as caches:
            environment = os.environ | {
                "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
                "SPYRE_CACHE_DIR": f"{caches}/spyre",
            }
            for state in ("cold", "warm"):
                result = _work(model, backend, environment)
                row[f"{short} {state}"] = result["seconds"]
                if backend == "spyre" and state == "cold":
                    row |= {f"{stage} ms": result[stage] for stage in STAGES}
    row["cold ratio"] = row["spyre cold"] / row["ind. cold"]
    row["warm ratio"] = row["spyre warm"] / row["ind. warm"]
    return row


def _work(model: str, backend: str, environment: dict[str, str]) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, str(WORKER), model, backend],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"bench: {model} with {backend}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
