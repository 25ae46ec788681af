# SPDX-License-Identifier: Apache-2.0
"""Calls of the command `spyre`, and files to call it with."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLES = ROOT / "tests" / "golden" / "bundle"
GRAPHS = ROOT / "tests" / "golden" / "graph"
SECONDS = 60


class Spyre:
    """Calls of the command, each checked against the rules that hold for every call."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments):
        done = subprocess.run(
            [self.path, *map(str, arguments)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode in (0, 1, 2), f"died: {done.returncode}\n{done.stderr}"
        return done

    def good(self, *arguments):
        """Standard output of a call that must succeed in silence."""
        done = self(*arguments)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    def bad(self, *arguments):
        """The diagnostic of a call that must be refused: one line, and nothing else."""
        done = self(*arguments)
        assert done.returncode == 2, (done.returncode, done.stderr)
        assert done.stdout == ""
        assert done.stderr.startswith("spyre")
        assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n")
        return done.stderr[:-1]


def files_below(directory):
    """What a directory holds: {path: bytes}, directories as None."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(pathlib.Path(directory).rglob("*"))
    }


def mutations(data, step):
    """Cases of damage to bytes: cut short, one byte inverted, one byte removed, one doubled."""
    for at in range(0, len(data), max(1, len(data) // step)):
        yield f"cut at {at}", data[:at]
        yield f"inverted at {at}", data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        yield f"removed at {at}", data[:at] + data[at + 1 :]
        yield f"doubled at {at}", data[: at + 1] + data[at:]
