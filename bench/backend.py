# SPDX-License-Identifier: Apache-2.0
"""The back-end compiler as a process, as torch-spyre's front-end calls it: bundles of more and more
steps, the files of tests/golden/bundle/softmax again and again."""

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


def _least_ms(folder: pathlib.Path) -> float:
    command = [pathlib.Path(sys.executable).with_name("dxp_standalone"), "--bundle", "-d", folder]
    least, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        least = min(least, 1e3 * (time.perf_counter() - began))
        shutil.rmtree(folder / "spyreCodeDir")
    return least


def run(only: str) -> dict[str, dict[str, float]]:
    title = f"dxp_standalone as a process; at most {LIMIT_MS} ms for {FILES[0]} files"
    table = Table(title, ["ms", "us a file"])
    for files in FILES:
        name = f"dxp {files} files"
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            _make_bundle(pathlib.Path(folder), files)
            least = _least_ms(pathlib.Path(folder))
        table.add(name, {"ms": least, "us a file": 1e3 * least / files})
    return table.rows
