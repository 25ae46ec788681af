# SPDX-License-Identifier: Apache-2.0
"""Every sample bundle, damaged: the back-end compiler takes it, or says one line and ends with exit
code 2. SPYRE_SAMPLE_BUNDLES names a directory with more of them."""

import os
import pathlib
import shutil

import pytest
from command import BUNDLES
from damage import damaged

CASES, FEW = 60, 6


def samples():
    more = os.environ.get("SPYRE_SAMPLE_BUNDLES")
    folders = [BUNDLES] + ([pathlib.Path(more)] if more else [])
    return sorted(path.parent for folder in folders for path in folder.rglob("bundle.mlir"))


def check(spyre, source, folder, cases):
    """Damages one file of a copy at a time, each in its turn."""
    shutil.copytree(source, folder)
    shutil.rmtree(folder / "spyreCodeDir", ignore_errors=True)
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".mlir"))
    refused = 0
    for seed in range(cases):
        path, other = files[seed % len(files)], files[(seed + 1) % len(files)]
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, other.read_bytes(), seed))
        done = spyre("dxp", "--bundle", "-d", folder, "-o", folder.parent / f"{seed}")
        path.write_bytes(whole)
        complaints = [line for line in done.stderr.splitlines() if "warning" not in line]
        assert done.returncode in (0, 2), f"seed {seed}, {path.name}: {done.stderr}"
        assert len(complaints) == (done.returncode == 2), f"seed {seed}, {path.name}: {done.stderr}"
        refused += done.returncode == 2
    assert refused >= cases // 3


@pytest.mark.parametrize("source", samples(), ids=lambda path: path.name)
def test_a_damaged_bundle_is_one_line(spyre, tmp_path, source):
    check(spyre, source, tmp_path / "damaged", FEW)


@pytest.mark.long
@pytest.mark.parametrize("source", samples(), ids=lambda path: path.name)
def test_sixty_kinds_of_damage(spyre, tmp_path, source):
    check(spyre, source, tmp_path / "damaged", CASES)
