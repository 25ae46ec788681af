# SPDX-License-Identifier: Apache-2.0
"""The form of the specification's fourth example (torch-spyre/interface-specs, 0248): constant
addresses in a loop, one of them inside of a stick, cores by a second dim of an affine map."""

import json
import re
import struct

import pytest
from command import BUNDLES

PROGRAM = """
#to_b = affine_map<(d0, core)[base] -> (base + 1024*d0 + 256*core)>
#to_c = affine_map<(d0, core)[base] -> (base + 256*d0 + 512*core)>
module {
  func.func @two_steps() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %rounds = arith.constant 8 : index
    %core0 = arith.constant 0 : index
    %core1 = arith.constant 1 : index
    %a = arith.constant 1024 : index
    %b = arith.constant 12288 : index
    %c = arith.constant 20992 : index
    scf.for %i = %c0 to %rounds step %c1 {
      %a0 = affine.apply affine_map<(d0)[base] -> (base + 128 * d0)> (%i)[%a]
      %b0 = affine.apply #to_b (%i, %core0)[%b]
      %b1 = affine.apply #to_b (%i, %core1)[%b]
      sdscbundle.sdsc_execute (%a0, %b0, %b1) {sdsc_filename="a.json", symbol_ids=[-1, -2, -3]}
      %d0 = affine.apply #to_c (%i, %core0)[%c]
      %d1 = affine.apply #to_c (%i, %core1)[%c]
      sdscbundle.sdsc_execute (%b0,%b1,%d0,%d1) {sdsc_filename="b.json", symbol_ids=[-4,-5,-6,-7]}
    }
    return
  }
}
"""
SIZE = 1 << 16


def step(number, symbols):
    """A negation on two cores whose start addresses are these symbols."""
    body = (BUNDLES / "loops" / "sdsc_0.json").read_text().replace("0_neg", f"{number}_neg")
    found = iter(symbols)
    return re.sub(r'("\[[01], 0, 0\]": ?)"-\d+"', lambda match: f'{match[1]}"{next(found)}"', body)


def with_two_folds(text):
    """Start addresses by core and corelet alone, of two corelets, and one address for all cores
    where they have the same symbol: the folds that the specification asks for."""
    whole = json.loads(text)
    (sdsc,) = whole.values()
    (dsc,) = sdsc["dscs_"][0].values()
    sdsc["coreletFoldProp_"]["factor_"] = 2
    for node in dsc["scheduleTree_"]:
        fold = node["startAddressCoreCorelet_"]
        fold["dim_prop_func"].pop()
        fold["dim_prop_attr"].pop()
        fold["dim_prop_attr"][1]["factor_"] = 2
        data = {key.replace(", 0]", "]"): value for key, value in fold["data_"].items()}
        if len(set(data.values())) == 1:
            fold["dim_prop_func"][0] = {"Const": {}}
            data = dict([next(iter(data.items()))])
        fold["data_"] = data
    return json.dumps(whole)


def write(directory, program, change=str):
    directory.mkdir()
    (directory / "bundle.mlir").write_text(program)
    for name, number, symbols in (
        ("a", 0, (-1, -1, -2, -3)),
        ("b", 1, (-4, -5, -6, -7)),
    ):
        (directory / f"{name}.json").write_text(change(step(number, symbols)))
    return directory


def expected(before, rounds=8, third=20992 + 96):
    """Each round negates a row of A into B for both cores, and that into C."""
    memory = bytearray(before)
    for i in range(rounds):
        row = memory[1024 + 128 * i :][:128]
        for core in range(2):
            b, c = 12288 + 1024 * i + 256 * core, third + 256 * i + 512 * core
            memory[b : b + 128] = bytes(x ^ (at % 2 << 7) for at, x in enumerate(row))
            memory[c : c + 128] = row
    return bytes(memory)


@pytest.mark.parametrize("change", [str, with_two_folds])
def test_addresses_inside_of_a_stick(spyre, tmp_path, change):
    directory = write(tmp_path / "bundle", PROGRAM.replace("20992", str(20992 + 96)), change)
    source, target = tmp_path / "x", tmp_path / "y"
    source.write_bytes(struct.pack(f"<{SIZE // 2}H", *(0x2000 + i // 4 for i in range(SIZE // 2))))
    assert "equal\n" in spyre.good("bisect", directory, f"--input=0={source}")
    spyre.good("dxp", "--bundle", "-d", directory)
    files = [f"--input=0={source}", f"--output=0={target}"]
    spyre.good("run", directory / "spyreCodeDir", f"--size=0={SIZE}", *files)
    assert target.read_bytes() == expected(source.read_bytes())


def test_the_address_of_the_example(spyre, tmp_path):
    directory = write(tmp_path / "bundle", PROGRAM.replace("20992", "17888"))
    spyre.good("dxp", "--bundle", "-d", directory)
    assert "step 1" in spyre.good("inspect", directory)


def test_as_many_rounds_as_a_launch_chooses(spyre, tmp_path):
    """One program; the bytes of the argument say how many rounds there are."""
    third = 20992 + 96
    size = "%rounds_base: !sdscbundle.input_arg<index, granularity=1, max_value=8>"
    program = PROGRAM.replace("@two_steps()", f"@two_steps({size})").replace("20992", str(third))
    taken = "sdscbundle.input_arg_extract value from %rounds_base"
    program = program.replace("%rounds = arith.constant 8 : index", f"%rounds = {taken}")
    directory = write(tmp_path / "bundle", program)
    spyre.good("dxp", "--bundle", "-d", directory)
    source, target = tmp_path / "x", tmp_path / "y"
    for rounds in (1, 3, 8):
        count = third + 512 + 128 + 256 * (rounds - 1)
        words = (0x2000 + i // 4 for i in range(count // 2))
        source.write_bytes(struct.pack(f"<{count // 2}H", *words))
        chosen = [f"--input=0={source}", f"--size=rounds={rounds}"]
        assert "equal\n" in spyre.good("bisect", directory, *chosen)
        files = [f"--input=0={source}", f"--output=0={target}", f"--size=0={count}"]
        spyre.good("run", directory / "spyreCodeDir", *files)
        assert target.read_bytes() == expected(source.read_bytes(), rounds, third)


OWN_MEMORY = """
module {
  func.func @chain(%arg_0_base_addr: !sdscbundle.input_arg<index>,
                   %arg_1_base_addr: !sdscbundle.input_arg<index>) {
    %from = sdscbundle.input_arg_extract value from %arg_0_base_addr
    %to = sdscbundle.input_arg_extract value from %arg_1_base_addr
    %other = sdscbundle.device_mem_allocate 100 bytes : index
    %own = sdscbundle.device_mem_allocate 4096 bytes : index
    %c128 = arith.constant 128 : index
    %own1 = arith.addi %own, %c128 : index
    %to1 = arith.addi %to, %c128 : index
    sdscbundle.sdsc_execute (%from, %own, %own1) {sdsc_filename="a.json", symbol_ids=[-1, -2, -3]}
    sdscbundle.sdsc_execute (%own, %own1, %to, %to1)
      {sdsc_filename="b.json", symbol_ids=[-4, -5, -6, -7]}
    return
  }
}
"""


def test_memory_that_a_bundle_asks_for(spyre, tmp_path):
    directory = write(tmp_path / "bundle", OWN_MEMORY)
    source, target = tmp_path / "x", tmp_path / "y"
    source.write_bytes(bytes(range(128)))
    spyre.good("dxp", "--bundle", "-d", directory)
    code = directory / "spyreCodeDir"
    assert "pool of 4224 bytes" in spyre.good("inspect", code)
    sizes = ["--size=0=128", "--size=1=256"]
    spyre.good("run", code, *sizes, f"--input=0={source}", f"--output=1={target}")
    assert target.read_bytes() == bytes(range(128)) * 2


@pytest.mark.parametrize("bytes_", ["0", "16106127361"])
def test_memory_beyond_a_segment_is_refused(spyre, tmp_path, bytes_):
    directory = write(tmp_path / "bundle", OWN_MEMORY.replace("4096", bytes_))
    line = spyre.bad("dxp", "--bundle", "-d", directory)
    assert f"bundle.mlir:8:43: device_mem_allocate of {bytes_} bytes beside 128 others" in line
