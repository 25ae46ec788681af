# SPDX-License-Identifier: Apache-2.0
"""`spyre record` and `spyre replay`: one launch in one file."""

import random

import pytest
from damage import damaged_bytes


@pytest.fixture
def launch(spyre, bundle, tmp_path):
    """The launch of a bundle on an input."""
    directory = bundle("softmax")
    spyre.good("dxp", "--bundle", "-d", directory)
    (tmp_path / "x").write_bytes(bytes(range(0, 128)) * 8)
    file = tmp_path / "launch"
    run = [spyre.path, "run", directory / "spyreCodeDir", f"--input=0={tmp_path}/x"]
    sizes = ["--size=0=1024", "--size=1=1024", f"--output=1={tmp_path}/y"]
    spyre.good("record", "-o", file, "--", *run, *sizes)
    return file


@pytest.mark.parametrize("mode", [[], ["--exact"]])
def test_the_same_bits(spyre, launch, mode):
    text = spyre.good("replay", launch, *mode)
    assert "launch of program: 5 kernels" in text
    assert "argument 0  1024 bytes, 0 KiB changed: as recorded" in text
    assert "argument 1  1024 bytes, 4 KiB changed: as recorded" in text


def test_stops_before_an_instruction(spyre, launch):
    text = spyre.good("replay", launch, "--until", "1_sub")
    assert "in front of instruction" in text and "kernel, between kernels" in text
    at = int(text.split("in front of instruction ")[1].split(",")[0])
    shown = spyre.good("replay", launch, "--until", at + 4, "--core", 1)
    assert "vector, of kernel 1_sub, on core 1" in shown
    maximum = shown.splitlines()[-1].split(":")[1].split()
    assert "operand 2  SEN169_FP16 in LX" in shown and len(set(maximum)) == 1
    assert float(maximum[0]) > 0  # of the core's rows, which kernel 0 has left there


def test_what_is_not_there_is_named(spyre, launch, tmp_path):
    assert "neither a number below" in spyre.bad("replay", launch, "--until", "9_sub")
    assert "core 7 takes no part in kernel 1_sub" in spyre.bad(
        "replay", launch, "--until", "20", "--core", "7"
    )
    assert "expected a number in 0..31" in spyre.bad("replay", launch, "--core", "32")
    assert "a recorded launch is missing" in spyre.bad("replay")
    (tmp_path / "cut").write_bytes(launch.read_bytes()[:-1])
    assert "the checksum is wrong" in spyre.bad("replay", tmp_path / "cut")
    for path in (tmp_path / "cut", tmp_path / "missing"):
        assert spyre.bad("replay", path).count(str(path)) == 1


def test_a_record_needs_a_launch(spyre, tmp_path):
    file = tmp_path / "none"
    done = spyre("record", "-o", file, "--launch", "3", "--", spyre.path, "card")
    assert done.returncode == 1 and "made no launch 3: it made 0" in done.stderr
    assert "-o with the file" in spyre.bad("record", "--", "true")
    assert "a command are missing" in spyre.bad("record", "-o", file)
    assert "--launch 'x'" in spyre.bad("record", "-o", file, "--launch", "x", "--", "true")


def test_a_recording_that_fails_leaves_what_was_there(spyre, launch, tmp_path):
    before = launch.read_bytes()
    run = [spyre.path, "replay", launch]
    for command, said in ((run, "made no launch 5: it made "), (["false"], ""), (["nosuch"], "")):
        done = spyre("record", "-o", launch, "--launch", "5", "--", *command)
        assert done.returncode != 0 and said in done.stderr
        assert launch.read_bytes() == before
    assert not [file.name for file in tmp_path.iterdir() if file.name.startswith("launch.")]
    assert str(tmp_path) in spyre.bad("record", "-o", tmp_path, "--", *_run_of(spyre, tmp_path))


def _run_of(spyre, tmp_path):
    directory = next(path for path in tmp_path.rglob("spyreCodeDir"))
    sizes = ["--size=0=1024", "--size=1=1024"]
    return [spyre.path, "run", directory, f"--input=0={tmp_path}/x", *sizes]


def test_how_many_launches_there_were(spyre, launch, tmp_path):
    file = tmp_path / "second"
    done = spyre("record", "-o", file, "--launch=1", "--", *_run_of(spyre, tmp_path))
    assert done.returncode == 1 and "made no launch 1: it made 1" in done.stderr
    assert not file.exists()


def test_damaged_records(spyre, launch, tmp_path):
    whole = launch.read_bytes()
    for seed in range(12):
        broken = damaged_bytes(whole, random.Random(seed))
        if broken != whole:
            (tmp_path / "damaged").write_bytes(broken)
            spyre.bad("replay", tmp_path / "damaged")
