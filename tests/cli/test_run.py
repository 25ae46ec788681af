# SPDX-License-Identifier: Apache-2.0
import json
import struct
import subprocess
import sys

import pytest

STICKS = 4  # of the loops bundle's tensors that the test looks at


@pytest.fixture
def negation(spyre, bundle):
    """SpyreCode of a bundle that negates; its arguments have no stated size."""
    directory = bundle("loops")
    spyre.good("dxp", "--bundle", "-d", directory)
    return directory / "spyreCodeDir"


def test_argument_needs_a_size(spyre, negation):
    assert "launch argument 0" in spyre.bad("run", negation)


def test_runs_on_raw_bytes(spyre, negation, tmp_path):
    size = 4096
    codes = [0x3E00 + i for i in range(size // 2)]  # 1.0 and up in DL16
    source, target = tmp_path / "in.bin", tmp_path / "out.bin"
    source.write_bytes(struct.pack(f"<{len(codes)}H", *codes))
    spyre.good(
        "run",
        negation,
        f"--input=0={source}",
        f"--output=1={target}",
        f"--size=0={size}",
        f"--size=1={size}",
    )
    found = struct.unpack(f"<{size // 2}H", target.read_bytes())
    # 6 iterations of 2 sticks are negated; step 1 negates the first 2 of the result once more.
    assert list(found[: 12 * 64]) == [code | 0x8000 for code in codes[: 12 * 64]]
    assert list(found[16 * 64 : 18 * 64]) == codes[: 2 * 64]


def test_input_stays_and_zeros_are_the_default(spyre, negation, tmp_path):
    target = tmp_path / "out.bin"
    spyre.good("run", negation, f"--output=0={target}", "--size=0=4096", "--size=1=4096")
    assert target.read_bytes() == bytes(4096)


def test_too_small_memory_is_refused(spyre, negation, tmp_path):
    target = tmp_path / "out.bin"
    sizes = ("--size=0=128", "--size=1=4096")
    line = spyre.bad("run", negation, f"--output=1={target}", *sizes)
    assert "launch argument 0 has 128 bytes, the program touches 1536" in line  # 12 sticks
    assert not target.exists()


def test_input_of_another_size(spyre, negation, tmp_path):
    source = tmp_path / "in.bin"
    source.write_bytes(bytes(100))
    sizes = ("--size=0=4096", "--size=1=4096")
    assert "fewer bytes than the 4096" in spyre.bad("run", negation, f"--input=0={source}", *sizes)
    source.write_bytes(bytes(5000))
    assert "more bytes than the 4096" in spyre.bad("run", negation, f"--input=0={source}", *sizes)
    assert "absent" in spyre.bad("run", negation, f"--input=0={tmp_path / 'absent'}", *sizes)


def test_no_such_argument(spyre, negation):
    line = spyre.bad("run", negation, "--size=5=128", "--size=0=4096", "--size=1=4096")
    assert "no launch argument 5" in line


def test_refuses_broken_code(spyre, negation, tmp_path):
    assert "spyrecode.json" in spyre.bad("run", tmp_path)
    plans = json.loads((negation / "spyrecode.json").read_text())
    del plans["JobExecPlan"]
    (negation / "spyrecode.json").write_text(json.dumps(plans))
    assert "JobExecPlan" in spyre.bad("run", negation)


def test_counters(spyre, negation):
    sizes = ("--size=0=4096", "--size=1=4096")
    assert spyre.good("run", negation, *sizes) == ""
    counters = json.loads(spyre.good("run", negation, *sizes, "--json"))
    # 6 iterations of 2 sticks, then 2 sticks once more.
    assert counters["total"]["memory_read_bytes"] == (6 * 2 + 2) * 128
    assert [k["runs"] for k in counters["kernels"]] == [6, 1]
    table = spyre.good("run", negation, *sizes, "--counters").splitlines()
    assert len(table) == 1 + len(counters["kernels"]) + 1


def test_memory_is_committed_where_it_is_touched(spyre, negation, tmp_path):
    size = 1 << 30
    target = tmp_path / "out.bin"
    call = [
        spyre.path,
        "run",
        negation,
        f"--output=1={target}",
        f"--size=0={size}",
        f"--size=1={size}",
    ]
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
    measure += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run(
        [sys.executable, "-c", measure, *map(str, call)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout) < 200 << 10  # KiB, of 2 GiB declared
    assert target.stat().st_size == size
    assert target.stat().st_blocks * 512 < 1 << 20


def test_output_between_holes_is_whole(spyre, negation, tmp_path):
    size = 3 << 20
    source, target = tmp_path / "in.bin", tmp_path / "out.bin"
    given = bytearray(size)
    given[0:2] = given[-2:] = struct.pack("<H", 0x3E00)
    given[1 << 20 : (1 << 20) + 2] = struct.pack("<H", 0x3E01)
    source.write_bytes(given)
    sizes = (f"--size=0={size}", f"--size=1={size}")
    spyre.good("run", negation, f"--input=0={source}", f"--output=0={target}", *sizes)
    assert target.read_bytes() == given


def test_an_argument_fits_a_segment(spyre, negation):
    assert "--size" in spyre.bad("run", negation, f"--size=0={(1 << 34) + 1}", "--size=1=4096")
