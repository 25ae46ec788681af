# SPDX-License-Identifier: Apache-2.0
import re

import pytest
from command import ROOT

COMMANDS = re.findall(r"^CMD_ROW\((\w+),", (ROOT / "src/cli/cmd.def").read_text(), re.MULTILINE)


def test_help_lists_every_command(spyre):
    text = spyre.good("--help")
    assert len(COMMANDS) >= 5
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\w", text, re.MULTILINE)
    assert spyre.good("-h") == text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(spyre, command):
    text = spyre.good(command, "--help")
    assert text.startswith(f"usage: spyre {command}")
    assert len(text.splitlines()) >= 3
    assert spyre.good(command, "whatever", "-h") == text


def test_version_is_that_of_the_package(spyre):
    header = (ROOT / "include" / "spyre" / "version.h").read_text()
    version = re.search(r'SPYRE_VERSION "(.+)"', header)[1]
    assert spyre.good("--version") == f"spyre {version}\n"


def test_no_command(spyre):
    assert "a command is missing" in spyre.bad()


def test_unknown_command(spyre):
    assert "no command is named 'polish'" in spyre.bad("polish")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect",), "a path is missing"),
        (("inspect", "--colour", "x"), "unknown option '--colour'"),
        (("inspect", "a", "b"), "unexpected argument 'b'"),
        (("compile",), "a .graph or .loop file is missing"),
        (("compile", "a", "b"), "unexpected argument 'b'"),
        (("compile", "a", "-o"), "-o needs a value"),
        (("compile", "a", "--cores", "0"), "invalid SENCORES value '0': expected a whole number"),
        (("compile", "a", "--cores", "33"), "invalid SENCORES value '33': expected a whole number"),
        (("compile", "a", "--cores=4x"), "invalid SENCORES value '4x': expected a whole number"),
        (("dxp",), "-d with the bundle's directory is missing"),
        (("dxp", "-d"), "-d needs a value"),
        (("dxp", "--verbose"), "unknown option '--verbose'"),
        (("card", "full"), "unexpected argument 'full'"),
        (("run",), "a SpyreCode directory is missing"),
        (("run", "a", "--input", "x"), "--input 'x': expected NUMBER=VALUE"),
        (("run", "a", "--output", "-1=x"), "--output '-1=x': expected NUMBER=VALUE"),
        (("run", "a", "--size", "0=0"), "--size '0=0': expected NUMBER=VALUE"),
        (("run", "a", "--size"), "--size needs a value"),
    ],
)
def test_wrong_arguments(spyre, arguments, message):
    line = spyre.bad(*arguments)
    assert line.startswith(f"spyre {arguments[0]}: ")
    assert message in line


def test_card_prints_constants_with_unit_and_source(spyre):
    rows = [re.split(r"  +", line.strip()) for line in spyre.good("card").splitlines()]
    table = {}
    for row in rows:
        name, value = row[0].split() if len(row) == 3 else row[:2]
        table[name] = float(value)
        assert row[-1] and row[-2]
    assert table["CORES"] == 32
    assert table["CORELETS"] == 2
    assert table["LX_BYTES"] == 2 << 20
    assert table["RING_WIDTH"] == 128
    assert table["STICK_BYTES"] == 128
    assert table["MEMORY_BYTES"] == 128 << 30
    assert table["MEMORY_NOMINAL"] == 204.8
    assert table["SPAN_BYTES"] == 256 << 20
    assert table["MATMUL_RATE"] == 1.14e6


def test_ops_lists_every_opfunc_once_with_its_class(spyre):
    rows = [line.split() for line in spyre.good("ops").splitlines()]
    classes = {row[0]: row[1] for row in rows}
    assert len(classes) == len(rows)
    assert set(classes.values()) == {"published", "own"}
    assert (classes["relufwd"], classes["erf"]) == ("published", "own")
    assert classes["absmax"] == classes["conv2dint4"] == "published"
    (clip,) = [row for row in rows if row[0] == "clip"]
    assert clip[2:5] == ["parametric", "{clipMin}", "{clipMax}"] and "float16" in clip
    (matmul,) = [row for row in rows if row[0] == "batchmatmul"]
    assert matmul[3:] == ["float16", "bfloat16", "float32", "(extended)"]
    assert "unexpected argument" in spyre.bad("ops", "erf")
