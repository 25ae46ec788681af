# SPDX-License-Identifier: Apache-2.0
"""What a result depends on besides the code: the machine, its peaks, the versions."""

import pathlib
import platform
import subprocess

import torch

ROOT = pathlib.Path(__file__).parents[1]


def describe() -> dict[str, object]:
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "model": processor_key(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(_memory_kib() / 2**20, 1),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "commit": _commit(),
    }


def _line(file: str, key: str) -> str:
    for line in pathlib.Path(file).read_text().splitlines():
        if line.startswith(key):
            return line.split(":", 1)[1].strip()
    return "unknown"


def _processor() -> str:
    return _line("/proc/cpuinfo", "model name")


def processor_key() -> str:
    """Vendor, family and model of the processor, as a part of a file name. Clouds give many
    processors one name; ratios of different ones do not compare."""
    keys = ("vendor_id", "cpu family", "model\t")
    return "-".join(_line("/proc/cpuinfo", key) for key in keys).lower().replace(" ", "")


def _memory_kib() -> int:
    return int(_line("/proc/meminfo", "MemTotal").split()[0])


def _commit() -> str:
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    )
    return git.stdout.strip() or "unknown"


def peak_gflops(threads: int | None = None) -> float | None:
    """fp32 FMA peak of so many threads, all by default, as tools/host_peak measures it; None
    without that program."""
    return _measured(str(threads or torch.get_num_threads()))


def read_gbytes() -> float | None:
    """GB/s that one thread reads from memory; None without tools/host_peak."""
    return _measured("--read", "1")


MEASUREMENTS = 5  # of which the best counts: another process may hold a core during one


def _measured(*words: str) -> float | None:
    program = ROOT / "build" / "release" / "tools" / "host_peak"
    if not program.exists():
        return None
    runs = [
        subprocess.run([program, *words], capture_output=True, text=True)
        for _ in range(MEASUREMENTS)
    ]
    return max(float(done.stdout.split()[-1]) for done in runs)
