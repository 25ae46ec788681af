# SPDX-License-Identifier: Apache-2.0
"""`spyre smi`, which is aiu-smi: arguments, and the card of a program that has ended."""

import json
import os
import pathlib
import subprocess

import pytest

ALWAYS = ["#ID", "Date", "Time", "hostcpu", "hostmem", "pwr", "gtemp", "busy"]
RATES = ["rdmem", "wrmem", "rxpci", "txpci", "rdrdma", "wrrdma"]


@pytest.fixture
def files(spyre, bundle, tmp_path, monkeypatch):
    """The pattern of metrics files, with one of a program that ran."""
    directory = bundle("loops")
    spyre.good("dxp", "--bundle", "-d", directory)
    config = tmp_path / "smi.json"
    config.write_text(json.dumps({"metrics": {"path": f"{tmp_path}/[m].%BUSID"}}))
    monkeypatch.setenv("SENLIB_DEVEL_CONFIG_FILE", str(config))
    sizes = [f"--size={k}=4096" for k in range(2)]
    spyre.good("run", directory / "spyreCodeDir", *sizes)
    assert (tmp_path / "[m].0000:01:00.0").exists()
    return tmp_path / "[m].%BUSID"


def sample(spyre, *arguments):
    lines = spyre.good("smi", "-s", "-d", "0.01", "-c", "2", *arguments).splitlines()
    assert len(lines) == 3
    return [line.split(",") for line in lines]


def test_columns(spyre, files):
    header, *rows = sample(spyre, files)
    assert header == ALWAYS + RATES
    for row in rows:
        assert row[0] == "0" and row[5:7] == ["-", "-"]
        assert float(row[3]) >= 0 and 0 < float(row[4]) < 100
        assert [float(v) for v in row[7:]] == [0] * 7  # the program has ended


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        (["-g", "M"], ["rsvmem"]),
        (["-g", "U,P"], ["actmem", "peakmem", "pt_active"]),
        (["--metric-groups=R"], ["n_" + name for name in RATES]),
        (["-g", "S"], [f"seg{n}" for n in range(7)]),
        (["--mem-details"], [*RATES, "rsvmem", *[f"seg{n}" for n in range(7)]]),
        (["--idle-power", "26", "--llm-type", "granite"], RATES),
    ],
)
def test_groups(spyre, files, options, columns):
    assert sample(spyre, *options, files)[0] == ALWAYS + columns


def test_text_file_and_variable(spyre, files, tmp_path, monkeypatch):
    target = tmp_path / "log"
    monkeypatch.setenv("AIUSMI_OPTS", f"-g A -d 0.01 -c 3 -f {target}")
    assert spyre.good("smi", "dmon", "-c", "1", "-g", "P", files) == ""
    header, row = target.read_text().splitlines()
    assert header.split() == [*ALWAYS, "pt_active"]
    assert len(header) == len(row) and row.split()[-1] == "0.0"


def test_other_cards_and_no_cards(spyre, files, tmp_path):
    quick = ["-c", "1", "-d", "0.01"]
    assert "no card reported" in spyre.bad("smi", *quick, "-i", "1,2", files)
    assert "no card reported" in spyre.bad("smi", *quick, tmp_path / "none.%BUSID")
    endless = [spyre.path, "smi", "-d", "0.01", tmp_path / "none.%BUSID"]
    with subprocess.Popen(endless, stderr=subprocess.PIPE, text=True) as waits:
        assert "no card reported" in waits.stderr.readline()
        waits.terminate()
    (tmp_path / "text.x").write_text("no metrics")
    (tmp_path / "text.y").mkdir()
    message = spyre.bad("smi", *quick, tmp_path / "text.%BUSID")
    assert "no card reported" in message and f"{tmp_path}/text.y: cannot read" in message
    (tmp_path / "text.y").rmdir()
    message = spyre.bad("smi", *quick, tmp_path / "text.%BUSID")
    assert f"{tmp_path}/text.x: no metrics file of this version" in message


def test_a_cut_or_foreign_file_beside_a_good_one(spyre, files, tmp_path):
    good = (tmp_path / "[m].0000:01:00.0").read_bytes()
    (tmp_path / "[m].cut").write_bytes(good[:-1])
    (tmp_path / "[m].changed").write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    (tmp_path / "[m].link").symlink_to("nowhere")
    (tmp_path / "[m].large").write_bytes(good + bytes(1 << 16))
    lines = spyre.good("smi", "-s", "-d", "0.01", "-c", "1", files).splitlines()
    assert [line.split(",")[0] for line in lines] == ["#ID", "0", "0"]  # and the large one


def test_quotes_in_the_variable(spyre, files, tmp_path, monkeypatch):
    target = tmp_path / "two  words"
    options = f"-d 0.01\t-c '1' -f \"{target}\" \n -g \"\"P '{files}'"
    monkeypatch.setenv("AIUSMI_OPTS", options)
    assert spyre.good("smi") == ""
    assert target.read_text().split()[len(ALWAYS)] == "pt_active"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-g", "DZ"], "group 'Z' is none of"),
        (["-g", " "], "group ' ' is none of"),
        (["-d", "0"], "-d 0: expected seconds"),
        (["-d", "nan"], "-d nan: expected seconds"),
        (["-d", "1s"], "-d 1s: expected seconds"),
        (["-c", "0"], "-c 0: expected a number"),
        (["-c", "1.5"], "-c 1.5: expected a number"),
        (["-i", ""], "-i : expected numbers"),
        (["-i", "0,"], "-i 0,: expected numbers"),
        (["-i", "64"], "-i 64: expected numbers"),
        (["-i", "-1"], "-i -1: expected numbers"),
        (["--idle-power", "hot"], "--idle-power hot: expected watts"),
        (["-f"], "-f needs a value"),
        (["-f", "/nowhere/log"], "/nowhere/log cannot be written: No such file"),
        (["-c", "99999999999999999999"], "-c 99999999999999999999: expected a number"),
        (["-i", "99999999999999999999"], "expected numbers of cards"),
        (["-g"], "-g needs a value"),
        (["--count="], "-c : expected a number"),
        (["first", "second"], "unexpected argument 'second'"),
        (["x" * 600], "a path of 600 characters: at most 511"),
        (["--power"], "unknown option '--power'"),
    ],
)
def test_bad_arguments(spyre, arguments, words):
    assert words in spyre.bad("smi", *arguments)


def test_bad_variable(spyre, monkeypatch):
    monkeypatch.setenv("AIUSMI_OPTS", "-q")
    message = spyre.bad("smi")
    assert message == "spyre smi: AIUSMI_OPTS: unknown option '-q' (see spyre smi --help)"
    monkeypatch.setenv("AIUSMI_OPTS", "-d 0")
    assert spyre.bad("smi").startswith("spyre smi: AIUSMI_OPTS: -d 0: expected seconds")
    monkeypatch.setenv("AIUSMI_OPTS", "-f 'log")
    assert "AIUSMI_OPTS=-f 'log: a quote is left open" in spyre.bad("smi")
    monkeypatch.setenv("AIUSMI_OPTS", "-s " * 300 + "-q")
    assert "unknown option '-q'" in spyre.bad("smi")
    monkeypatch.setenv("AIUSMI_OPTS", "x" * 2000)
    assert "AIUSMI_OPTS has 2000 characters" in spyre.bad("smi")


def test_it_is_aiu_smi(spyre):
    other = pathlib.Path(os.path.realpath(spyre.path)).with_name("aiu-smi")
    version = subprocess.check_output([other, "-v"], text=True)
    assert version == spyre.good("smi", "--version").replace("spyre", "aiu-smi")
    assert subprocess.check_output([other, "--help"], text=True) == spyre.good("smi", "--help")
