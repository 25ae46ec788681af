# SPDX-License-Identifier: Apache-2.0
import shutil

import pytest
from command import BUNDLES, GRAPHS, mutations

ALL_BUNDLES = sorted(path.name for path in BUNDLES.iterdir())
ALL_GRAPHS = sorted(path.name for path in GRAPHS.glob("*.graph"))


@pytest.mark.parametrize("name", ALL_BUNDLES)
def test_every_bundle(spyre, name):
    text = spyre.good("inspect", BUNDLES / name)
    steps = len(list((BUNDLES / name).glob("sdsc_*.json")))
    assert f"{steps} steps" in text.splitlines()[0]
    for step in range(steps):
        assert f"\nstep {step}  {step}_" in text


def test_bundle_says_dims_masks_and_addresses(spyre):
    text = spyre.good("inspect", BUNDLES / "softmax")
    assert "step 0  0_max: max on 2 cores in SEN169_FP16" in text
    assert "dims     mb 4 in 2 slices of 2, out 128" in text
    assert "mask     out 100..127 reads constant 0" in text
    assert "samv-maskvalue = -inf" in text
    assert "cores 0..1  argument 0 + 0x0, +256 a core" in text


def test_loops_and_their_strides(spyre):
    text = spyre.good("inspect", BUNDLES / "loops")
    assert "3 times" in text and "2 times" in text
    assert "+ 512*loop0 + 256*loop1" in text


def test_one_step(spyre):
    text = spyre.good("inspect", BUNDLES / "softmax" / "sdsc_0.json")
    assert "0_max: max on 2 cores" in text


def test_step_with_symbols_needs_its_bundle(spyre):
    line = spyre.bad("inspect", BUNDLES / "many_arguments" / "sdsc_0.json")
    assert "sdsc_0.json" in line and "symbol" in line


@pytest.mark.parametrize("name", ALL_GRAPHS)
def test_graph_prints_as_a_graph(spyre, name, tmp_path):
    text = spyre.good("inspect", GRAPHS / name)
    assert " inputs, " in text.splitlines()[0]
    again = tmp_path / name
    again.write_text(text)
    assert spyre.good("inspect", again).splitlines()[1:] == text.splitlines()[1:]


def test_spyrecode_and_its_program(spyre, bundle):
    directory = bundle("matmul")
    spyre.good("dxp", "--bundle", "-d", directory)
    text = spyre.good("inspect", directory / "spyreCodeDir")
    assert "allocate " in text and "transfer init.bin" in text
    assert "address of launch argument 2" in text
    assert "compute on device: program at 0x1c00000000" in text
    assert "program: " in text
    listing = spyre.good("inspect", directory / "spyreCodeDir" / "init.bin")
    assert "\nkernel 0 " in listing and "matmul [" in listing and listing.endswith("halt\n")


def test_plan_of_a_program(spyre, bundle):
    directory = bundle("matmul")
    spyre.good("dxp", "--bundle", "-d", directory)
    code = directory / "spyreCodeDir"
    plan = spyre.good("inspect", "--plan", code)
    assert plan == spyre.good("inspect", "--plan", code / "init.bin")
    assert plan.startswith("pass make_tiles: ") and "\npass choose_stages: " in plan
    assert "\nstage of 2 kernels, 2 units of 1 core: " in plan
    line = spyre.bad("inspect", "--plan", directory / "bundle.mlir")
    assert "bundle.mlir: not a program image" in line


def test_nothing_there(spyre, tmp_path):
    assert "absent" in spyre.bad("inspect", tmp_path / "absent")
    assert "neither bundle.mlir nor spyrecode.json" in spyre.bad("inspect", tmp_path)


def test_text_that_is_no_graph(spyre, tmp_path):
    path = tmp_path / "notes.graph"
    path.write_text("input x\n")
    assert f"{path}:1:" in spyre.bad("inspect", path)
    path.write_bytes(b"")
    assert "return line is missing" in spyre.bad("inspect", path)
    path.write_bytes(b"input %x: f16[4]\0\nreturn %x\n")
    assert "neither text nor a program image" in spyre.bad("inspect", path)


def refuse_or_print(spyre, *arguments):
    """A damaged file is refused with one line, or is by chance still right."""
    done = spyre(*arguments)
    if done.returncode == 0:
        assert done.stderr == ""
        return 0
    assert done.returncode == 2, done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1
    return 1


def test_damaged_graph(spyre, tmp_path):
    path = tmp_path / "damaged.graph"
    refused = 0
    for _, data in mutations((GRAPHS / "attention.graph").read_bytes(), 12):
        path.write_bytes(data)
        refused += refuse_or_print(spyre, "inspect", path)
    assert refused > 20


@pytest.mark.parametrize("file", ["sdsc_0.json", "bundle.mlir"])
def test_damaged_bundle(spyre, bundle, file):
    directory = bundle("gather")
    refused = 0
    for _, data in mutations((BUNDLES / "gather" / file).read_bytes(), 12):
        (directory / file).write_bytes(data)
        refused += refuse_or_print(spyre, "inspect", directory)
    assert refused > 20


@pytest.mark.parametrize("file", ["spyrecode.json", "init.bin"])
def test_damaged_spyrecode(spyre, bundle, tmp_path, file):
    source = bundle("add_scalar")
    spyre.good("dxp", "--bundle", "-d", source)
    directory = tmp_path / "damaged"
    shutil.copytree(source / "spyreCodeDir", directory)
    refused = 0
    for _, data in mutations((source / "spyreCodeDir" / file).read_bytes(), 12):
        (directory / file).write_bytes(data)
        refused += refuse_or_print(spyre, "inspect", directory)
        if file == "init.bin":
            refused += refuse_or_print(spyre, "inspect", directory / file)
    assert refused > 20


def test_image_of_another_version(spyre, bundle):
    directory = bundle("add_scalar")
    spyre.good("dxp", "-d", directory)
    image = directory / "spyreCodeDir" / "init.bin"
    data = bytearray(image.read_bytes())
    data[8] = 99
    image.write_bytes(data)
    assert "version" in spyre.bad("inspect", image)
