# SPDX-License-Identifier: Apache-2.0
"""Damaged files of every kind that a command reads: it takes them in silence, or says one line and
ends with exit code 2."""

import shutil

import pytest
from command import GRAPHS
from damage import damaged

CASES = 60


def samples(spyre, folder):
    """What `spyre compile` writes for two graphs: [directory, directory]."""
    made = []
    for name in ("softmax", "pointwise"):
        source = next(GRAPHS.parent.rglob(f"{name}.graph"))
        made.append(folder / name)
        spyre.good("compile", source, "-o", made[-1], "--dump", folder / f"{name}.dump")
        shutil.copytree(folder / f"{name}.dump", made[-1] / "stages")
        shutil.copy(source, made[-1] / "a.graph")
        for code in made[-1].rglob("bundle"):
            shutil.copytree(code, made[-1] / "bundle", dirs_exist_ok=True)
        for code in made[-1].rglob("spyrecode"):
            shutil.copytree(code, made[-1] / "spyrecode", dirs_exist_ok=True)
    return made


@pytest.fixture(scope="module")
def made(spyre, tmp_path_factory):
    return samples(spyre, tmp_path_factory.mktemp("made"))


# What is damaged, and the commands that read it: they get the file or the directory.
KINDS = {
    "a.graph": [("compile",), ("why",), ("lx",), ("inspect",)],
    "stages/segment0.loop": [("compile",)],
    "stages/segment0.passes": [("compile", "--after", "deadcode")],
    "bundle/bundle.mlir": [("dxp", "--bundle", "-d"), ("inspect",)],
    "bundle/sdsc_0.json": [("dxp", "--bundle", "-d"), ("inspect",)],
    "spyrecode/spyrecode.json": [("run",), ("inspect",)],
    "spyrecode/init.bin": [("run",), ("inspect",)],
    "stages/segment0.lx": [("explore", "-o", "page.html")],
    "stages/segment0.time": [("explore", "-o", "page.html")],
}


def argument_of(command, path):
    reads_a_file = command[0] in ("compile", "why", "lx") or path.suffix == ".graph"
    return path if reads_a_file else path.parent


@pytest.mark.parametrize("kind", KINDS)
def test_damaged(spyre, made, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    first, second = ((folder / kind).read_bytes() for folder in made)
    folder = tmp_path / "damaged"
    shutil.copytree(made[0], folder)
    refused = 0
    for seed in range(CASES):
        command = KINDS[kind][seed % len(KINDS[kind])]
        (folder / kind).write_bytes(damaged(first, second, seed))
        done = spyre(*command, argument_of(command, folder / kind))
        where = f"seed {seed} {command}: {done.stderr}"
        assert done.returncode in (0, 2), where
        assert done.stderr.count("\n") == (1 if done.returncode else 0), where
        refused += done.returncode == 2
    assert refused or kind.startswith("stages/")
