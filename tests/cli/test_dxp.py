# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from command import BUNDLES, files_below, mutations

ALL_BUNDLES = sorted(path.name for path in BUNDLES.iterdir())


@pytest.mark.parametrize("name", ALL_BUNDLES)
def test_every_bundle(spyre, bundle, name):
    directory = bundle(name)
    before = files_below(directory)
    assert spyre.good("dxp", "--bundle", "-d", directory) == ""
    after = files_below(directory)
    written = {"spyreCodeDir", "spyreCodeDir/init.bin", "spyreCodeDir/spyrecode.json"}
    assert set(after) - set(before) == written
    assert {path: after[path] for path in before} == before
    plans = json.loads((directory / "spyreCodeDir" / "spyrecode.json").read_text())
    assert set(plans) == {"JobPreparationPlan", "JobExecPlan"}


def test_same_bytes_again(spyre, bundle):
    directory = bundle("softmax")
    spyre.good("dxp", "--bundle", "-d", directory)
    first = files_below(directory)
    (directory / "spyreCodeDir" / "stale").write_text("from an earlier run")
    spyre.good("dxp", "--bundle", "-d", directory)
    assert files_below(directory) == first


def test_output_elsewhere(spyre, bundle, tmp_path):
    directory = bundle("add_scalar")
    before = files_below(directory)
    spyre.good("dxp", "-d", directory, "-o", tmp_path / "deep" / "code")
    assert sorted(files_below(tmp_path / "deep" / "code")) == ["init.bin", "spyrecode.json"]
    assert files_below(directory) == before


def test_missing_directory(spyre, tmp_path):
    assert "no such directory" in spyre.bad("dxp", "--bundle", "-d", tmp_path / "absent")
    assert "bundle.mlir" in spyre.bad("dxp", "--bundle", "-d", tmp_path)
    assert files_below(tmp_path) == {}


def change(path, *keys, value):
    """Sets one field of a JSON file, given by its keys."""
    tree = json.loads(path.read_text())
    node = tree
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = value
    path.write_text(json.dumps(tree))


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("numCoresUsed_",), 33, "numCoresUsed_"),
        (("numCoresUsed_",), "two", "expected an integer"),
        (("numWkSlicesPerDim_", "mb"), 3, "mb"),
        (("coreIdToWkSlice_", "0", "mb"), 9, "slice"),
        (("dscs_", 0, "max", "N_", "out_"), 0, "out_"),
        (("dscs_", 0, "max", "N_", "mb_"), -4, "mb_"),
        (("dscs_", 0, "max", "maskingConstId_"), 7, "mask"),
        (("dscs_", 0, "max", "constantInfo_"), [], "constantInfo_"),
        (("dscs_", 0, "max", "computeOp_"), [], "computeOp_"),
        (("dscs_", 0, "max", "labeledDs_", 0, "dataFormat_"), "BF8", "unknown data format"),
        (("dscs_", 0, "max", "labeledDs_", 0, "wordLength"), 3, "wordLength"),
        (("dscs_",), [], "dscs_"),
        (("coreFoldProp_", "factor_"), 7, "factor_: 7 is outside"),
        (("dscs_", 0, "max", "computeOp_", 0, "exUnit"), "gpu", '"gpu", expected "sfp": max runs'),
        (("dscs_", 0, "max", "computeOp_", 0, "exUnit"), "pt", 'expected "sfp"'),
        (("dscs_", 0, "max", "numCoreletsUsed_"), 3, "numCoreletsUsed_: 3 is outside 1..2"),
    ],
)
def test_wrong_field(spyre, bundle, keys, value, message):
    directory = bundle("softmax")
    change(directory / "sdsc_0.json", "0_max", *keys, value=value)
    before = files_below(directory)
    line = spyre.bad("dxp", "--bundle", "-d", directory)
    assert message in line
    assert "sdsc_0.json" in line or "step 0" in line
    assert files_below(directory) == before


def test_unknown_fields_are_named_once(spyre, bundle):
    directory = bundle("softmax")
    path = directory / "sdsc_0.json"
    change(path, "0_max", "prefetch_", value=1)
    for node in (0, 1):
        change(path, "0_max", "dscs_", 0, "max", "labeledDs_", node, "compression_", value="none")
    done = spyre("dxp", "--bundle", "-d", directory)
    assert done.returncode == 0 and done.stdout == ""
    first, second = done.stderr.splitlines()
    for line, place in (
        (first, "$.0_max.prefetch_"),
        (second, "$.0_max.dscs_[0].max.labeledDs_[0].compression_"),
    ):
        assert line.startswith("spyre warning:")
        assert f"sdsc_0.json: {place}: unknown field, ignored" in line


def test_earlier_output_survives_an_error(spyre, bundle):
    directory = bundle("softmax")
    spyre.good("dxp", "--bundle", "-d", directory)
    (directory / "sdsc_1.json").write_text("{")
    before = files_below(directory)
    assert "sdsc_1.json: line 1" in spyre.bad("dxp", "--bundle", "-d", directory)
    assert files_below(directory) == before


def test_output_that_is_a_file(spyre, bundle):
    directory = bundle("softmax")
    (directory / "spyreCodeDir").write_text("in the way")
    before = files_below(directory)
    assert "is no directory" in spyre.bad("dxp", "--bundle", "-d", directory)
    assert files_below(directory) == before


@pytest.mark.parametrize("file", ["sdsc_0.json", "bundle.mlir"])
def test_damaged_files_leave_nothing(spyre, bundle, file):
    directory = bundle("restickify")
    refused = 0
    for what, data in mutations((BUNDLES / "restickify" / file).read_bytes(), 10):
        (directory / file).write_bytes(data)
        before = files_below(directory)
        done = spyre("dxp", "--bundle", "-d", directory, "-o", directory.parent / "out")
        if done.returncode == 0:
            continue
        assert done.returncode == 2 and done.stderr.count("\n") == 1, what
        assert files_below(directory) == before
        refused += 1
    assert refused > 10
