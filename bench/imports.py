# SPDX-License-Identifier: Apache-2.0
"""What `import torch` takes longer because the package is installed: the step in which PyTorch
looks for such packages and loads this one; beside it, all other steps."""

import os
import subprocess
import sys

from harness import Table

RUNS = 20
LIMIT_MS = 20
TIMED = """
import time
began = time.perf_counter()
import torch
without = time.perf_counter()
torch._import_device_backends()
gained = time.perf_counter()
assert torch.spyre
print(1e3 * (without - began), 1e3 * (gained - without))
"""


def _import_ms() -> list[float]:
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed files are compiled
    command = [sys.executable, "-c", TIMED]
    answer = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return [float(word) for word in answer.stdout.split()]


def run(only: str) -> dict[str, dict[str, float]]:
    columns = ["without ms", "gained ms"]
    table = Table(f"Least of {RUNS} runs; at most {LIMIT_MS} ms may be gained", columns)
    if only in "import torch":
        least = [min(times) for times in zip(*(_import_ms() for _ in range(RUNS)), strict=True)]
        table.add("import torch", dict(zip(columns, least, strict=True)))
    return table.rows
