# SPDX-License-Identifier: Apache-2.0
"""Bundles that say less, or other things, than they mean, as torch-spyre's front-end writes them:
what `dxp` and launches make of them, and that `inspect` says so."""

import json

import numpy as np
import pytest
from command import files_below
from test_suspicions import edit, findings

MEAN = 'input %x: f16[3, 40]\n%r = aten.mean.dim(%x, [1], false) -> f16[3] @ "m.py:1"\nreturn %r\n'


class Conversion:
    """The bundle of one conversion from argument 0 to argument 1: `rows` of 64 elements, as N_ has
    them, on a core each."""

    def __init__(self, directory, rows):
        self.directory, self.rows = directory, rows
        lines = (directory / "bundle.mlir").read_text().splitlines(keepends=True)
        (directory / "bundle.mlir").write_text("".join(x for x in lines if "sdsc_1" not in x))
        ((key, body),) = json.loads((directory / "sdsc_1.json").read_text()).items()
        (directory / "sdsc_1.json").unlink()
        self.body = body
        ((_op, self.dsc),) = body["dscs_"][0].items()
        cores = range(rows)
        body["numWkSlicesPerDim_"] = {"mb": rows, "out": 1}
        body["coreIdToWkSlice_"] = {str(core): {"mb": core, "out": 0} for core in cores}
        body["numCoresUsed_"] = self.dsc["numCoresUsed_"] = rows
        body["coreFoldProp_"]["factor_"] = rows
        self.dsc["coreIdsUsed_"] = list(cores)
        body["coreIdToDsc_"] = {str(core): 0 for core in cores}
        self.dsc["N_"].update(mb_=rows, out_=64)
        for argument, node in enumerate(self.dsc["scheduleTree_"]):
            node["component_"] = "hbm"
            self.place(node, [(argument << 34) + core * 128 for core in cores])
        self.key = "0" + key[1:]

    @staticmethod
    def place(node, addresses):
        node["startAddressCoreCorelet_"]["data_"] = {
            f"[{core}, 0, 0]": str(address) for core, address in enumerate(addresses)
        }

    def write(self):
        self.dsc.pop("dataStageParam_", None)  # what restates sizes and places
        for node in self.dsc["scheduleTree_"]:
            node.pop("coordinates_", None)
            node.pop("name_", None)
        path = self.directory / "sdsc_0.json"
        path.write_text(json.dumps({self.key: self.body}))
        return self.directory


@pytest.mark.parametrize("sticks", [1, 2])
def test_conversions_of_tensors_without_the_last_stick(spyre, bundle, tmp_path, sticks):
    directory = Conversion(bundle("casts"), 3).write()
    assert findings(spyre, directory) == []
    spyre.good("dxp", "--bundle", "-d", directory)
    rows = np.arange(sticks * 3 * 32, dtype=np.float32).reshape(sticks, 3, 32)
    rows.tofile(tmp_path / "in")
    given = f"--input=0={tmp_path / 'in'}"
    sizes = f"--size=0={rows.nbytes}", "--size=1=384"
    spyre.good("run", directory / "spyreCodeDir", given, *sizes, f"--output=1={tmp_path / 'out'}")
    bits = np.fromfile(tmp_path / "out", np.uint16).reshape(3, 64)[:, : 32 * sticks]
    exponent, mantissa = (bits >> 9).astype(int) - 31, (bits & 511) / 512
    values = np.where(bits == 0, 0, (1 + mantissa) * 2.0**exponent)
    assert np.array_equal(values, rows.transpose(1, 0, 2).reshape(3, -1))
    assert "0 of 1 differ" in spyre.good("bisect", directory, given, *sizes)


def test_conversions_of_tensors_without_more_than_that(spyre, bundle):
    directory = Conversion(bundle("casts"), 3).write()
    spyre.good("dxp", "--bundle", "-d", directory)
    line = spyre.bad("run", directory / "spyreCodeDir", "--size=0=256", "--size=1=384")
    assert "reaches bytes" in line and "of the 256 bytes of its launch argument" in line


def with_unit_dim(made):
    """The conversion with a dim x of one index, the fastest one in memory."""
    made.dsc["N_"]["x_"] = 1
    made.body["numWkSlicesPerDim_"]["x"] = 1
    for core in made.body["coreIdToWkSlice_"].values():
        core["x"] = 0
    for layout in made.dsc["primaryDsInfo_"].values():
        layout["layoutDimOrder_"] = ["x", "mb", "out"]
    for node in made.dsc["scheduleTree_"]:
        node["layoutDimOrder_"] = ["x", "mb", "out"]
        node["maxDimSizes_"] = [-1, -1, -1]
    for tensor in made.dsc["labeledDs_"]:
        tensor["scale_"] = [1, 1, 1]
    return made


def test_a_second_stick_that_is_taken_for_a_dim(spyre, bundle):
    made = with_unit_dim(Conversion(bundle("casts"), 2))
    made.dsc["scheduleTree_"][1]["backGapCore_"] = {"x": {"-1": "1"}}
    made.place(made.dsc["scheduleTree_"][1], [1 << 34, (1 << 34) + 256])
    directory = made.write()
    assert any("a second stick of each row" in line for line in findings(spyre, directory))
    spyre.good("dxp", "--bundle", "-d", directory)
    spyre.bad("run", directory / "spyreCodeDir", "--size=0=256", "--size=1=384")


def test_a_dim_that_is_taken_for_another(spyre, bundle):
    made = with_unit_dim(Conversion(bundle("casts"), 2))
    made.dsc["scheduleTree_"][0]["backGapCore_"] = {"x": {"-1": "1"}}
    made.dsc["labeledDs_"][0]["scale_"] = [1, -1, 1]
    made.place(made.dsc["scheduleTree_"][0], [0, 0])
    [found] = findings(spyre, made.write())
    assert "room for 2 indices of dim x, which has one, and does not move along mb" in found


def test_cores_that_start_beside_their_slices(spyre, bundle):
    made = Conversion(bundle("casts"), 3)
    made.place(made.dsc["scheduleTree_"][0], [0, 128, 384])
    [found] = findings(spyre, made.write())
    assert "core 2 starts at byte 384 of Tensor0, but its slices begin at byte 256" in found


def with_an_index_of_two_dims(directory, table_order):
    """The golden gather with an index of 4 x 3: each of its dims is an indexed one of the table."""
    path = directory / "sdsc_0.json"
    ((key, body),) = json.loads(path.read_text()).items()
    ((_op, dsc),) = body["dscs_"][0].items()
    dsc["N_"]["x_"] = 3
    body["numWkSlicesPerDim_"]["x"] = 1
    for core in body["coreIdToWkSlice_"].values():
        core["x"] = 0
    index, table, rows = dsc["scheduleTree_"]
    labels = dsc["primaryDsInfo_"]
    labels["KERNEL_IDX"].update(layoutDimOrder_=["mb", "x"], stickDimOrder_=["x"])
    labels["OUTPUT"]["layoutDimOrder_"] = ["out", "mb", "x"]
    index.update(layoutDimOrder_=["mb", "x"], maxDimSizes_=[-1, -1])
    table.update(layoutDimOrder_=table_order, maxDimSizes_=[-1, 1, 1])
    rows.update(layoutDimOrder_=["mb", "out", "x"], maxDimSizes_=[-1, -1, -1])
    rows["startAddressCoreCorelet_"]["data_"] = {
        f"[{core}, 0, 0]": str((2 << 34) + 4 * 128 * core) for core in range(2)
    }
    for tensor in dsc["labeledDs_"]:
        tensor["scale_"] = [1] * (2 if tensor["dsType_"] == "KERNEL_IDX" else 3)
    path.write_text(json.dumps({key: body}))
    return directory


def test_an_index_of_two_dims(spyre, bundle, tmp_path):
    directory = with_an_index_of_two_dims(bundle("gather"), ["out", "mb", "x"])
    spyre.good("dxp", "--bundle", "-d", directory)
    chosen = np.random.default_rng(7).integers(0, 10, (4, 3)).astype(np.int32)
    np.pad(chosen, ((0, 0), (0, 29))).tofile(tmp_path / "index")
    table = np.arange(10 * 128, dtype=np.uint16).reshape(10, 128)
    table.tofile(tmp_path / "table")
    given = [f"--input=0={tmp_path / 'index'}", f"--input=1={tmp_path / 'table'}"]
    given += ["--size=0=512", "--size=1=2560", "--size=2=3072"]
    out = tmp_path / "out"
    spyre.good("run", directory / "spyreCodeDir", *given, f"--output=2={out}")
    found = np.fromfile(out, np.uint16).reshape(3, 2, 4, 64).transpose(2, 0, 1, 3)
    assert np.array_equal(found.reshape(4, 3, 128), table[chosen])
    assert "0 of 1 differ" in spyre.good("bisect", directory, *given)


def test_an_index_of_two_dims_apart_from_each_other(spyre, bundle):
    directory = with_an_index_of_two_dims(bundle("gather"), ["mb", "out", "x"])
    line = spyre.bad("dxp", "--bundle", "-d", directory)
    assert "Tensor1 needs exactly one indexed dim (size 1)" in line


@pytest.mark.parametrize("first", [10, 64, 70, 127])
def test_masked_elements_of_exp_are_those_of_the_constant(spyre, tmp_path, first):
    (tmp_path / "exp.graph").write_text(
        'input %x: f16[3, 128]\n%r = aten.exp.default(%x) -> f16[3, 128] @ "m.py:1"\nreturn %r\n'
    )
    spyre.good("compile", tmp_path / "exp.graph", "-o", tmp_path / "made")
    [directory] = tmp_path.glob("made/segment_*/bundle")
    path = directory / "sdsc_0.json"
    rows = np.random.default_rng(3).integers(0, 1 << 16, (2, 3, 64)).astype(np.uint16)
    rows.tofile(tmp_path / "in")
    given = [f"--input=0={tmp_path / 'in'}", "--size=0=768", "--size=1=768"]

    def mask(**members):
        body = json.loads(path.read_text())
        ((_op, dsc),) = next(iter(body.values()))["dscs_"][0].items()
        dsc.update(members)
        path.write_text(json.dumps(body))

    def run():
        spyre.good("dxp", "--bundle", "-d", directory)
        spyre.good("run", directory / "spyreCodeDir", *given, f"--output=1={tmp_path / 'out'}")
        return np.fromfile(tmp_path / "out", np.uint16).reshape(2, 3, 64)

    expected = run().transpose(1, 0, 2).reshape(3, 128)
    bits = {"[0, 0, 0]": [65535]}  # -inf
    constant = {"name_": "samv-maskvalue", "dataFormat_": "SEN169_FP16", "data_": {"data_": bits}}
    masks = {"coordinateMasking_": {"out": [[first, 128 - first]]}, "maskingConstId_": 0}
    mask(**masks, constantInfo_={"0": constant})
    found = run().transpose(1, 0, 2).reshape(3, 128)
    expected[:, first:] = 0
    assert np.array_equal(found, expected)
    assert "0 of 1 differ" in spyre.good("bisect", directory, *given)
    bits["[0, 0, 0]"] = [0]
    mask(constantInfo_={"0": constant})
    line = spyre.bad("dxp", "--bundle", "-d", directory)
    assert "exp of masked elements is supported where" in line and "exp of 0 is 0" in line


def test_masks_go_by_the_name_of_the_constant(spyre, tmp_path):
    (tmp_path / "mean.graph").write_text(MEAN)
    spyre.good("compile", tmp_path / "mean.graph", "-o", tmp_path / "made")
    [directory] = tmp_path.glob("made/segment_*/bundle")
    spyre.good("dxp", "--bundle", "-d", directory)
    code = files_below(directory / "spyreCodeDir")
    ((_key, body),) = json.loads((directory / "sdsc_0.json").read_text()).items()
    ((_op, dsc),) = body["dscs_"][0].items()
    names = {int(number): value["name_"] for number, value in dsc["constantInfo_"].items()}
    right = dsc["maskingConstId_"]
    assert names[right] == "samv-maskvalue" and len(names) == 2
    assert findings(spyre, directory) == []
    edit(directory, "sdsc_0.json", r'("maskingConstId_": *)\d', rf"\g<1>{1 - right}")
    assert any("samv-maskvalue, which is taken" in line for line in findings(spyre, directory))
    spyre.good("dxp", "--bundle", "-d", directory)
    assert files_below(directory / "spyreCodeDir") == code


@pytest.mark.parametrize("gap", [28, 128])
def test_a_gap_of_restickify_may_be_room(spyre, bundle, gap):
    directory, rows = (
        bundle("restickify"),
        128 + gap,
    )  # what is restickified is the first 128 of these
    edit(directory, "sdsc_0.json", r'("-1": *)"28"', rf'\g<1>"{gap}"')
    edit(directory, "sdsc_0.json", f'"{(1 << 34) + 12800}"', f'"{(1 << 34) + rows * 128}"')
    assert f"mb 128 (gap {gap}), out {rows * 128} a stick" in spyre.good("inspect", directory)
    [found] = findings(spyre, directory)
    assert "backGapCore_ of Tensor0 in dim out is taken as what the tensor lacks" in found
    sizes = "--size=0=17152", f"--size=1={rows * 256}"
    assert "0 of 1 differ" in spyre.good("bisect", directory, *sizes)
    assert "reaches bytes" in spyre.bad("bisect", directory, sizes[0], "--size=1=25600")


def test_the_other_part_of_a_cat_tells(spyre, bundle):
    directory, part = bundle("restickify"), bundle("add_scalar")
    ((key, body),) = json.loads((directory / "sdsc_0.json").read_text()).items()
    ((_op, dsc),) = body["dscs_"][0].items()
    body["numWkSlicesPerDim_"] = {"mb": 1, "out": 1}
    body["coreIdToWkSlice_"] = {"0": {"mb": 0, "out": 0}}
    body["coreIdToDsc_"] = {"0": 0}
    body["numCoresUsed_"] = dsc["numCoresUsed_"] = body["coreFoldProp_"]["factor_"] = 1
    dsc["coreIdsUsed_"] = [0]
    for argument, node in enumerate(dsc["scheduleTree_"]):
        Conversion.place(node, [argument << 34])
    (directory / "sdsc_0.json").write_text(json.dumps({key: body}))
    assert "mb 128 (gap 28), out 12800 a stick" in spyre.good("inspect", directory)
    ((_key, body),) = json.loads((part / "sdsc_0.json").read_text()).items()
    ((_op, dsc),) = body["dscs_"][0].items()
    node = dsc["scheduleTree_"][2]
    node["backGapCore_"] = {"mb": {"-1": "152"}}  # rows 128 to 131 of 156
    Conversion.place(node, [(1 << 34) + (128 + 2 * core) * 128 for core in (0, 1)])
    (directory / "sdsc_1.json").write_text(json.dumps({"1_add": body}))
    line = '\t\tsdscbundle.sdsc_execute () {sdsc_filename="sdsc_%d.json"}\n'
    text = (directory / "bundle.mlir").read_text()
    (directory / "bundle.mlir").write_text(text.replace(line % 0, line % 0 + line % 1))
    assert "mb 128 (gap 28), out 19968 a stick" in spyre.good("inspect", directory)
