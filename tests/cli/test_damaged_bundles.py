# SPDX-License-Identifier: Apache-2.0
"""Every sample bundle, damaged: each command that reads it takes it, or says one line and ends with
exit code 2; and what is taken gives the interpreter's bits on the card. SPYRE_SAMPLE_BUNDLES names
a directory with more bundles."""

import os
import pathlib
import random
import re
import shutil
import struct

import pytest
from command import BUNDLES
from damage import damaged

CASES, FEW = 60, 6
BYTES = 3 << 20  # of each launch argument: more than any sample needs
SLOW_STEPS = ("batchmatmul", "conv")  # for the interpreter, which then judges every tenth case
LAUNCHES = ("bisect", "run")


def samples():
    more = os.environ.get("SPYRE_SAMPLE_BUNDLES")
    folders = [BUNDLES] + ([pathlib.Path(more)] if more else [])
    return sorted(path.parent for folder in folders for path in folder.rglob("bundle.mlir"))


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """Files for launch arguments: numbers around 1 of either sign, and small integers."""
    folder, chance = tmp_path_factory.mktemp("contents"), random.Random(1)
    halves = (chance.choice((0, 0x8000)) | chance.randrange(0x3A00, 0x4200) for _ in range(1 << 12))
    (folder / "floats").write_bytes(struct.pack("<4096H", *halves) * (BYTES >> 13))
    rows = (chance.randrange(8) for _ in range(1 << 11))
    (folder / "indices").write_bytes(struct.pack("<2048i", *rows) * (BYTES >> 13))
    return folder


class Damage:
    """Copies of a sample with one file damaged, and the commands that read it."""

    def __init__(self, spyre, source, folder, contents):
        self.spyre, self.code, self.folder = spyre, folder / "code", folder / "damaged"
        shutil.copytree(source, self.folder)
        shutil.rmtree(self.folder / "spyreCodeDir", ignore_errors=True)
        kinds = (".json", ".mlir")
        self.files = sorted(path for path in self.folder.iterdir() if path.suffix in kinds)
        text = "".join(path.read_text() for path in self.files)
        self.slow = any(name in text for name in SLOW_STEPS)
        first = "indices" if "index_tensor" in text else "floats"
        names = [first, *["floats"] * 9]
        self.arguments = []
        refused = spyre.bad("bisect", self.folder, "--size=99=128")
        count = int(re.search(r"only (\d+) of them", refused)[1])
        inputs = [f"--input={k}={contents / names[k]}" for k in range(count)]
        spyre.good("bisect", self.folder, *inputs)
        self.inputs, self.sizes = inputs, [f"--size={k}={BYTES}" for k in range(count)]

    def run(self, command):
        """The exit code; None where there is nothing to launch."""
        arguments = {
            "inspect": (self.folder,),
            "dxp": ("--bundle", "-d", self.folder, "-o", self.code),
            "bisect": (self.folder, *self.inputs),
            "run": (self.code, *self.inputs, *self.sizes),
        }
        if command == "run" and not self.code.exists():
            return None
        done = self.spyre(command, *arguments[command])
        complaints = [line for line in done.stderr.splitlines() if "warning" not in line]
        launches = command in LAUNCHES
        faults = launches and done.returncode == 1 and "is outside of" in done.stderr
        assert done.returncode in (0, 2) or faults, f"{command}: {done.stdout}{done.stderr}"
        assert len(complaints) == (done.returncode != 0), f"{command}: {done.stderr}"
        return done.returncode

    def case(self, seed, commands):
        path = self.files[seed % len(self.files)]
        other = self.files[(seed + 1) % len(self.files)]
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, other.read_bytes(), seed))
        shutil.rmtree(self.code, ignore_errors=True)
        try:
            return [self.run(command) for command in commands]
        except AssertionError as error:
            error.add_note(f"seed {seed}, {path.name}")
            raise
        finally:
            path.write_bytes(whole)


@pytest.mark.parametrize("source", samples(), ids=lambda path: path.name)
def test_a_damaged_bundle_is_one_line(spyre, tmp_path, contents, source):
    damage = Damage(spyre, source, tmp_path, contents)
    commands = ("inspect", "bisect", "dxp")
    codes = [damage.case(seed, commands[seed % 3 :][:1]) for seed in range(FEW)]
    assert [2] in codes


@pytest.mark.long
@pytest.mark.parametrize("source", samples(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_sixty_kinds_of_damage(spyre, tmp_path, contents, source):
    damage = Damage(spyre, source, tmp_path, contents)
    refused = 0
    for seed in range(CASES):
        judged = ("bisect",) if not damage.slow or seed % 10 == 0 else ()
        refused += damage.case(seed, ("inspect", "dxp", *judged, "run"))[1] == 2
    assert refused >= CASES // 3
