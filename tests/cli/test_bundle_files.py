# SPDX-License-Identifier: Apache-2.0
"""The files of emitted bundles: form of SuperDSC, padding and masks, symbols, equal bytes.

The rules are those of the SuperDSC-Bundle specification (torch-spyre/interface-specs, 0248) and of
torch-spyre's page docs/source/compiler/backend.md."""

import itertools
import json
import math
import re

import pytest
from command import BUNDLES, GRAPHS, files_below

ALL_GRAPHS = sorted(path.stem for path in GRAPHS.glob("*.graph"))
FIELDS = ["sdscFoldProps_", "sdscFolds_", "coreFoldProp_", "coreletFoldProp_", "numCoresUsed_",
          "coreIdToDsc_", "numWkSlicesPerDim_", "coreIdToWkSlice_", "coreIdToDscSchedule",
          "dscs_"]  # fmt: skip
DSC_FIELDS = ["numCoresUsed_", "numCoreletsUsed_", "coreIdsUsed_", "N_", "coordinateMasking_",
              "maskingConstId_", "dataStageParam_", "primaryDsInfo_", "scheduleTree_", "labeledDs_",
              "constantInfo_", "computeOp_"]  # fmt: skip
MATMUL_DIMS = {"mb", "x", "y", "i", "j", "z", "out", "in", "ki", "kj", "kk", "kl", "room"}


class Emitted:
    """The bundle of one card segment."""

    def __init__(self, directory):
        self.directory = directory
        self.mlir = (directory / "bundle.mlir").read_text()
        count = len(list(directory.glob("sdsc_*.json")))
        self.steps = []  # (name, top level, the one entry of dscs_)
        for number in range(count):
            ((key, body),) = json.loads((directory / f"sdsc_{number}.json").read_text()).items()
            ((_op, dsc),) = body["dscs_"][0].items()
            self.steps.append((key, body, dsc))

    def step(self, suffix):
        return next(step for step in self.steps if step[0].endswith(suffix))


@pytest.fixture
def emit(spyre, tmp_path):
    """emit(graph text or name, settings) -> the bundle of the first card segment."""
    serial = itertools.count()

    def run(graph, *settings):
        directory = tmp_path / f"out{next(serial)}"
        path = GRAPHS / f"{graph}.graph"
        if "\n" in graph:
            path = tmp_path / "case.graph"
            path.write_text(graph)
        options = [word for setting in settings for word in ("--set", setting)]
        spyre.good("compile", path, "-o", directory, *options)
        return Emitted(sorted(directory.glob("segment_*"))[0] / "bundle")

    return run


def unary(op, size, dtype="f16", result=None, arguments=""):
    size = ", ".join(map(str, size))
    result = result if result is not None else size
    return (
        f"input %x: {dtype}[{size}]\n%r = aten.{op}(%x{arguments}) -> {dtype}[{result}] "
        '@ "m.py:1"\nreturn %r\n'
    )


def extent(dsc, dim):
    return dsc["N_"][f"{dim}_"]


def allocation(dsc, number):
    return next(
        node
        for node in dsc["scheduleTree_"]
        if node["nodeType_"] == "allocate" and node["ldsIdx_"] == number
    )


@pytest.mark.parametrize("name", ALL_GRAPHS)
def test_every_file_has_the_form(emit, name):
    bundle = emit(name)
    assert bundle.steps
    for number, (key, body, dsc) in enumerate(bundle.steps):
        assert re.fullmatch(rf"{number}_\w+", key)
        assert set(FIELDS) <= set(body) and set(DSC_FIELDS) <= set(dsc)
        cores = body["numCoresUsed_"]
        assert 1 <= cores == dsc["numCoresUsed_"] == len(body["coreIdToWkSlice_"])
        assert body["coreFoldProp_"]["factor_"] == cores
        assert body["coreletFoldProp_"]["factor_"] == 1
        assert math.prod(body["numWkSlicesPerDim_"].values()) == cores
        dims = [dim.removesuffix("_") for dim in dsc["N_"] if dim != "name_"]
        assert set(body["numWkSlicesPerDim_"]) <= set(dims)
        assert dsc["N_"]["name_"] == "n"
        for operand in dsc["labeledDs_"]:
            assert operand["dsType_"] in dsc["primaryDsInfo_"]
            layout = dsc["primaryDsInfo_"][operand["dsType_"]]
            assert len(operand["scale_"]) == len(layout["layoutDimOrder_"])
            assert set(layout["layoutDimOrder_"]) <= set(dims)
            assert layout["stickDimOrder_"][0] in layout["layoutDimOrder_"]
            assert set(operand["memOrg_"]) <= {"hbm", "lx"} and operand["memOrg_"]
            assert allocation(dsc, operand["ldsIdx_"])["component_"] in operand["memOrg_"]
        (compute,) = dsc["computeOp_"]
        is_matmul = compute["opFuncName"] in ("batchmatmul", "batchmatmulfp8")
        assert compute["exUnit"] == ("pt" if is_matmul else "sfp")
        assert compute["location"] == "Inner"
        assert compute["attributes_"]["fidelity_"] == "regular"
        assert not is_matmul or set(dims) <= MATMUL_DIMS


@pytest.mark.parametrize("name", ALL_GRAPHS)
def test_folds_enumerate_every_index_once(emit, name):
    for _key, _body, dsc in emit(name).steps:
        for operand in dsc["labeledDs_"]:
            order = dsc["primaryDsInfo_"][operand["dsType_"]]["layoutDimOrder_"]
            scale = dict(zip(order, operand["scale_"], strict=True))
            node = allocation(dsc, operand["ldsIdx_"])
            for dim, found in node["coordinates_"]["coordInfo"].items():
                if scale[dim] == 1:
                    check_folds(extent(dsc, dim), found["folds"])


def check_folds(size, folds):
    factors = [range(fold["factor_"]) for fold in folds["dim_prop_attr"]]
    affine = [fold["Affine"] for fold in folds["dim_prop_func"]]
    indices = [
        sum(a["alpha_"] * i + a["beta_"] for a, i in zip(affine, point, strict=True))
        for point in itertools.product(*factors)
    ]
    assert len(set(indices)) == len(indices)
    assert set(range(size)) <= set(indices)  # beyond it lies the padding of the last stick


def test_abs_on_two_cores(emit):
    bundle = emit(unary("abs.default", (4, 64)), "sencores=2")
    ((_key, body, dsc),) = bundle.steps
    assert body["numCoresUsed_"] == 2
    for number in (0, 1):
        starts = allocation(dsc, number)["startAddressCoreCorelet_"]["data_"]
        first, second = (int(starts[f"[{core}, 0, 0]"]) for core in (0, 1))
        assert second - first == 256
    assert dsc["computeOp_"][0]["opFuncName"] == "abs"


def test_scales(emit):
    _key, _body, dsc = emit(unary("sum.dim_IntList", (4, 128), result="4",
                                  arguments=", [1], false, none")).steps[0]  # fmt: skip
    output = dsc["labeledDs_"][-1]
    assert -2 in output["scale_"] and output["scale_"].count(1) == 1


def test_reductions_off_the_stick(emit):
    bundle = emit(unary("sum.dim_IntList", (67, 256), result="256",
                        arguments=", [0], false, none"))  # fmt: skip
    key, _body, dsc = bundle.steps[0]
    assert key == "0_sumnonstick" and dsc["computeOp_"][0]["opFuncName"] == "sumnonstick"


@pytest.mark.parametrize(
    "op, value", [("sum.dim_IntList", 0x0000), ("amax.default", 0xFFFF), ("amin.default", 0x7FFF)]
)
@pytest.mark.parametrize("columns", [65, 70, 127])
def test_padded_tails_are_masked(emit, op, value, columns):
    arguments = ", [1], false, none" if op.startswith("sum") else ", [1], false"
    bundle = emit(unary(op, (4, columns), result="4", arguments=arguments))
    _key, _body, dsc = bundle.steps[0]
    assert extent(dsc, "out") == 128
    assert dsc["coordinateMasking_"] == {"out": [[columns, 128 - columns]]}
    constant = dsc["constantInfo_"][str(dsc["maskingConstId_"])]
    assert constant["name_"] == "samv-maskvalue"
    assert constant["data_"]["data_"] == {"[0, 0, 0]": [value]}


def test_whole_sticks_need_no_mask(emit):
    bundle = emit(unary("amax.default", (4, 128), result="4", arguments=", [1], false"))
    _key, _body, dsc = bundle.steps[0]
    assert dsc["coordinateMasking_"] == {} and dsc["maskingConstId_"] == -1


def test_matmuls(emit):
    bundle = emit("linear")
    _key, _body, dsc = bundle.step("_batchmatmul")
    assert dsc["computeOp_"][0]["exUnit"] == "pt"
    names = [dim.removesuffix("_") for dim in dsc["N_"] if dim != "name_"]
    assert [name for name in names if name != "room"][-1] == "in"


SYMBOL = r"%arg_\d+_base_addr: !sdscbundle\.input_arg<index>"


def test_symbolic_arguments(emit, spyre, tmp_path):
    plain = emit("softmax")
    symbolic = emit("softmax", "bundle_symbolic_args=1")
    assert "input_arg" not in plain.mlir and re.search(SYMBOL, symbolic.mlir)
    assert "sdscbundle.input_arg_extract" in symbolic.mlir
    lists = re.findall(r'"symbol_ids"=\[([^\]]*)\]', symbolic.mlir)
    ids = [int(number) for numbers in lists for number in numbers.split(",") if number.strip()]
    assert ids and all(i < 0 for i in ids) and len(set(ids)) == len(ids)
    for _key, _body, dsc in symbolic.steps:
        for operand in dsc["labeledDs_"]:
            node = allocation(dsc, operand["ldsIdx_"])
            starts = [int(v) for v in node["startAddressCoreCorelet_"]["data_"].values()]
            assert all(s < 0 for s in starts) == (node["component_"] == "hbm")
    for bundle in (plain, symbolic):
        spyre.good("dxp", "--bundle", "-d", bundle.directory)
    assert [key for key, _b, _d in plain.steps] == [key for key, _b, _d in symbolic.steps]


@pytest.mark.parametrize("name", ["attention", "mlp", "gather"])
@pytest.mark.parametrize("symbolic", [0, 1])
def test_processes_write_equal_files(emit, name, symbolic):
    first, second = (
        files_below(emit(name, f"bundle_symbolic_args={symbolic}").directory.parents[1])
        for _ in range(2)
    )
    assert first == second and len(first) > 3


MATMUL = """input %x: f16[4, 8192]
input %y: f16[8192, 64]
%z = aten.mm.default(%x, %y) -> f16[4, 64] @ "m.py:1"
return %z
"""


def slices_of(emit, *settings):
    """For every core its (row slice, slice of the sum)."""
    _key, body, _dsc = emit(MATMUL, "work_division=published", *settings).step("_batchmatmul")
    slices = body["numWkSlicesPerDim_"]
    assert slices["mb"] > 1 and slices["in"] > 1
    of_core = body["coreIdToWkSlice_"]
    return [(of_core[str(c)]["mb"], of_core[str(c)]["in"]) for c in range(len(of_core))], slices


def test_cores_that_share_a_sum_are_neighbours(emit):
    """A core's slice is core / (product of the earlier splits) mod split; the sum's comes first."""
    fast, slices = slices_of(emit)
    k, m = slices["in"], slices["mb"]
    assert fast == [(core // k % m, core % k) for core in range(k * m)]
    slow, slices = slices_of(emit, "core_id_k_fast_emission=0")
    assert slow == [(core % m, core // m % k) for core in range(k * m)]


def test_uneven_slices(emit, spyre):
    """All slices but the last have the same length; only then does the file say so."""
    graph = unary("abs.default", (101, 448))
    bundle = emit(graph, "sencores=6", "uneven_splits=1")
    ((_key, body, dsc),) = bundle.steps
    assert body["numWkSlicesPerDim_"]["mb"] == 6 and extent(dsc, "mb") == 101
    assert body["wkSliceSizePerDim_"] == {"mb": 17}
    starts = allocation(dsc, 0)["startAddressCoreCorelet_"]["data_"]
    assert [int(starts[f"[{core}, 0, 0]"]) % 2**34 for core in range(6)] == [
        core * 17 * 128 for core in range(6)
    ]
    shown = spyre.good("inspect", bundle.directory)
    assert "mb 101 in 6 slices of 17, the last of 16" in shown
    spyre.good("dxp", "--bundle", "-d", bundle.directory)
    ((_key, body, _dsc),) = emit(graph, "sencores=6").steps
    assert "wkSliceSizePerDim_" not in body


@pytest.mark.parametrize(
    "name,shown",
    [
        ("convolution", "window   j by kj: stride 2, dilation 1, padding 1 and 1 of 7"),
        ("int4", "stick of 256 along in 16, mb 2, in 8; bytes a step: mb 128 a stick"),
    ],
)
def test_windows_and_sticks_of_several_dims_compile(spyre, tmp_path, name, shown):
    directory = BUNDLES / name
    spyre.good("dxp", "--bundle", "-d", directory, "-o", tmp_path / "code")
    assert shown in spyre.good("inspect", directory)
