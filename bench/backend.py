# SPDX-License-Identifier: Apache-2.0
"""The back-end compiler as a process, as torch-spyre's front-end calls it: bundles of more and more
steps, the files of tests/golden/bundle/softmax again and again."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from harness import Table

ROOT = pathlib.Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "tests" / "golden" / "bundle" / "softmax"
FILES = (6, 60, 600, 3000)
LIMIT_MS = 15  # a process on the first of them
SECONDS = 2.0
EXECUTE = '\t\tsdscbundle.sdsc_execute () {{sdsc_filename="sdsc_{}.json"}}\n'


def _make_bundle(folder: pathlib.Path, files: int) -> None:
    samples = sorted(SAMPLE.glob("sdsc_*.json"))
    for n in range(files):
        text = samples[n % len(samples)].read_text()
        (folder / f"sdsc_{n}.json").write_text(re.sub(r'"\d+_', f'"{n}_', text, count=1))
    steps = "".join(EXECUTE.format(n) for n in range(files))
    (folder / "bundle.mlir").write_text(
        f"module {{\n\tfunc.func @sdsc_bundle() {{\n{steps}\t\treturn\n\t}}\n}}\n"
    )


def _least_ms(folder: pathlib.Path) -> tuple[float, float]:
    """Of a call: the time until it has ended, and the processor's."""
    command = [pathlib.Path(sys.executable).with_name("dxp_standalone"), "--bundle", "-d", folder]
    wall, cpu, end = float("inf"), float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _pid, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        wall = min(wall, 1e3 * (time.perf_counter() - began))
        cpu = min(cpu, 1e3 * (used.ru_utime + used.ru_stime))
        shutil.rmtree(folder / "spyreCodeDir")
    return wall, cpu


def run(only: str) -> dict[str, dict[str, float]]:
    title = f"dxp_standalone as a process; at most {LIMIT_MS} ms for {FILES[0]} files"
    table = Table(title, ["ms", "cpu ms", "cpu us a file"])
    for files in FILES:
        name = f"dxp {files} files"
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            _make_bundle(pathlib.Path(folder), files)
            wall, cpu = _least_ms(pathlib.Path(folder))
        table.add(name, {"ms": wall, "cpu ms": cpu, "cpu us a file": 1e3 * cpu / files})
    return table.rows
