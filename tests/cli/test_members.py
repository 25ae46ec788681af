# SPDX-License-Identifier: Apache-2.0
"""Directories from others: what a command reads of one is a regular file inside of it."""

import os
import shutil

import pytest
from command import GRAPHS

SECRET = "a line of another user"
GRAPH = GRAPHS / "softmax.graph"


@pytest.fixture
def compiled(spyre, tmp_path):
    """What `spyre compile` writes, its stages in "stages"."""
    made = tmp_path / "made"
    spyre.good("compile", GRAPH, "-o", made, "--dump", tmp_path / "dump")
    shutil.copytree(tmp_path / "dump", made / "stages")
    return made


def link(path, elsewhere):
    path.symlink_to(elsewhere)


def link_to_itself(path, _elsewhere):
    path.symlink_to(path.name)


def pipe(path, _elsewhere):
    os.mkfifo(path)


def directory(path, _elsewhere):
    path.mkdir()


def device(path, _elsewhere):
    path.symlink_to("/dev/zero")


READERS = {
    "bundle.mlir": ("segment_0/bundle", [("dxp", "--bundle", "-d"), ("inspect",)]),
    "sdsc_0.json": ("segment_0/bundle", [("dxp", "--bundle", "-d"), ("inspect",)]),
    "spyrecode.json": ("segment_0/spyrecode", [("inspect",), ("run",)]),
    "init.bin": ("segment_0/spyrecode", [("inspect",), ("run",)]),
    "segment0.loop": ("stages", [("explore", "-o", "page.html")]),
    "segment0.graph": ("stages", [("explore", "-o", "page.html")]),
}


@pytest.mark.parametrize("replace", [link, link_to_itself, pipe, directory, device])
@pytest.mark.parametrize("member", READERS)
def test_members_are_regular_files(spyre, compiled, tmp_path, monkeypatch, member, replace):
    monkeypatch.chdir(tmp_path)
    below, commands = READERS[member]
    folder = compiled / below
    (tmp_path / "elsewhere").write_text(SECRET)
    (folder / member).unlink()
    replace(folder / member, tmp_path / "elsewhere")
    for command in commands:
        message = spyre.bad(*command, folder)
        assert SECRET not in message and member in message
        reasons = ("symbolic link", "not a regular file", "not found", "holds neither")
        assert any(reason in message for reason in reasons)
    assert not (tmp_path / "page.html").exists()


def test_a_link_to_the_directory_itself_is_the_users(spyre, compiled, tmp_path):
    (tmp_path / "link").symlink_to(compiled / "segment_0" / "bundle")
    spyre.good("inspect", tmp_path / "link")


def test_a_target_that_is_prepared(spyre, tmp_path):
    """Somebody knows where we write and puts links there: they stay, and lead nowhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for process in range(os.getpid(), os.getpid() + 50):
        (tmp_path / f"made.{process}.new").symlink_to(elsewhere)
    spyre.good("compile", GRAPH, "-o", tmp_path / "made")
    assert not list(elsewhere.iterdir())
    shutil.rmtree(tmp_path / "made")
