# SPDX-License-Identifier: Apache-2.0
"""Runs operators in worker processes; a worker that ends, hangs or grows too much is one row.

What an earlier run left in the folder is not run again: delete the folder to start afresh.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from . import rows

COMMAND = [sys.executable, "-W", "ignore", "-m", "ops.worker"]
HANG_S = 240  # of one case, start of the worker included; longer than worker.LIMIT_S
MEMORY_BYTES = 5 << 30  # resident, of one worker
RENEWED = 60  # operators of one worker


class Worker:
    """A process of worker.py and what it last said."""

    def __init__(self, folder: Path, dtypes, forms):
        tests = Path(__file__).resolve().parents[1]
        environment = {**os.environ, "PYTHONPATH": str(tests), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [*COMMAND, str(folder), ",".join(dtypes), ",".join(forms)], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.lines: queue.Queue = queue.Queue()  # of words; an empty list is the end
        threading.Thread(target=self._read, daemon=True).start()
        self.served = 0
        self.case = ("-", "eager")

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line.decode().split())
        self.lines.put([])

    def run(self, op: str) -> str:
        """Runs an operator: "" when done, else the verdict of the case that ended it."""
        assert self.process.stdin
        self.served += 1
        try:
            self.process.stdin.write(f"{op}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            return "crashed"
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline and not self._too_large():
            try:
                words = self.lines.get(timeout=2)
            except queue.Empty:
                continue
            if not words:
                return "crashed"
            if words[0] == "done":
                return ""
            self.note(words)
            deadline = time.monotonic() + HANG_S
        return "hung"

    def note(self, words: list[str]) -> None:
        """Keeps which case the process starts."""
        if words[0] == "case":
            self.case = (words[1], words[2])

    def _too_large(self) -> bool:
        try:
            return psutil.Process(self.process.pid).memory_info().rss > MEMORY_BYTES
        except psutil.NoSuchProcess:
            return False

    def end(self) -> str:
        """Ends the process; tells how it ended."""
        self.process.kill()
        return f"exit status {self.process.wait()}"


def run(folder: Path, names: list[str], dtypes, forms, processes: int) -> None:
    """Writes the rows of all operators below `folder`."""
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    finished: list[str] = []
    threads = [
        threading.Thread(target=_serve, args=(folder, waiting, dtypes, forms, finished, len(names)))
        for _ in range(processes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve(folder, waiting, dtypes, forms, finished, count) -> None:
    store = rows.Store(folder)
    worker = None
    while True:
        try:
            op = waiting.get_nowait()
        except queue.Empty:
            break
        while True:
            worker = worker or Worker(folder, dtypes, forms)
            verdict = worker.run(op)
            if not verdict:
                break
            how, (dtype, form) = worker.end(), worker.case
            store.write([rows.Row(op, dtype, form, "small", verdict, why=how)])
            store.finish(op, dtype, form)
            worker = None
        finished.append(op)
        print(f"{len(finished)}/{count} {op}", flush=True)
        if worker.served >= RENEWED:
            worker.end()
            worker = None
    if worker:
        worker.end()
