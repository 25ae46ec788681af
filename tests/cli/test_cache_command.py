# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import sys

import pytest

MAKE_FILES = """
import torch
x = torch.ones(4, 64, dtype=torch.float16).to("spyre")
assert ((x + 1) * 3).cpu().eq(6).all()
"""


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """An empty directory that the command and programs take for the cache."""
    monkeypatch.setenv("SPYRE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("SPYRE_CACHE", raising=False)
    monkeypatch.delenv("SPYRE_CACHE_SIZE", raising=False)
    return tmp_path


@pytest.fixture
def filled(directory):
    subprocess.run([sys.executable, "-c", MAKE_FILES], check=True, timeout=600, env=os.environ)
    return directory


def test_empty(spyre, directory):
    expected = f"0 files, 0 of {1 << 30} bytes in {directory}\n"
    assert spyre.good("cache", "list") == expected
    assert spyre.good("cache", "size") == expected
    assert spyre.good("cache", "verify") == expected + "0 unusable\n"
    assert spyre.good("cache", "clear") == "removed 0 files, 0 bytes\n"


def test_missing_directory_is_empty(spyre, directory, monkeypatch):
    monkeypatch.setenv("SPYRE_CACHE_DIR", str(directory / "none"))
    assert spyre.good("cache", "size").startswith("0 files")
    assert not (directory / "none").exists()


def test_files_are_listed_and_cleared(spyre, filled):
    files = sorted(filled.iterdir())
    total = sum(file.stat().st_size for file in files)
    assert len(files) == 2  # add and mul
    lines = spyre.good("cache", "list").splitlines()
    assert lines[-1] == f"2 files, {total} of {1 << 30} bytes in {filled}"
    for line in lines[:-1]:
        used, size, name = re.fullmatch(r"([-0-9]+ [:0-9]+) +(\d+)  (\S+)", line).groups()
        assert int(size) == (filled / name).stat().st_size
        assert used.startswith("20")
    assert spyre.good("cache", "clear") == f"removed 2 files, {total} bytes\n"
    assert list(filled.iterdir()) == []


def test_verify_names_damaged_files(spyre, filled):
    assert spyre.good("cache", "verify").endswith("\n0 unusable\n")
    damaged = sorted(filled.iterdir())[0]
    data = bytearray(damaged.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    lines = spyre.good("cache", "verify").splitlines()
    assert lines[0].endswith(f"{damaged.name}  its checksum is wrong")
    assert lines[-1] == "1 unusable"
    assert len(lines) == 3


def test_limit_is_that_of_the_environment(spyre, directory, monkeypatch):
    monkeypatch.setenv("SPYRE_CACHE_SIZE", "64M")
    assert f"of {64 << 20} bytes" in spyre.good("cache", "size")


def test_off(spyre, directory, monkeypatch):
    monkeypatch.setenv("SPYRE_CACHE", "0")
    assert "turns the cache off" in spyre.good("cache", "size")


def test_bad_arguments(spyre, directory, monkeypatch):
    assert "is missing" in spyre.bad("cache")
    assert "'shrink'" in spyre.bad("cache", "shrink")
    assert "'twice'" in spyre.bad("cache", "clear", "twice")
    file = directory / "file"
    file.write_text("")
    monkeypatch.setenv("SPYRE_CACHE_DIR", str(file))
    assert str(file) in spyre.bad("cache", "list")
