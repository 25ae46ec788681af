# SPDX-License-Identifier: Apache-2.0
"""Makes the cases of this folder: golden bundles with one thing broken.

python make_cases.py          writes <case>/files/ (the error files are written by the test
                              program when SPYRE_BLESS=1 is set, and reviewed by hand)
"""

import copy
import json
import pathlib

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent.parent / "golden" / "bundle"
EXECUTE = (
    'module {\n\tfunc.func @f() {\n\t\tsdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json"}\n'
    "\t\treturn\n\t}\n}\n"
)


class Step:
    """The JSON of step 0 of a golden bundle, with short ways to its parts."""

    def __init__(self, case):
        self.whole = json.loads((GOLDEN / case / "sdsc_0.json").read_text())
        (self.name,) = self.whole
        self.sdsc = self.whole[self.name]
        (self.op,) = self.sdsc["dscs_"][0]
        self.dsc = self.sdsc["dscs_"][0][self.op]
        self.nodes, self.labels = self.dsc["scheduleTree_"], self.dsc["labeledDs_"]
        self.compute = self.dsc["computeOp_"][0]


def write(case, mlir, text):
    folder = HERE / case / "files"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bundle.mlir").write_text(mlir)
    if text is not None:
        (folder / "sdsc_0.json").write_text(text)


def broken(case, change, golden="add_scalar", mlir=EXECUTE):
    step = Step(golden)
    change(step)
    write(case, mlir, json.dumps(step.whole, separators=(",", ":")) + "\n")


def set_in(path, value):
    """A change that assigns to step.<path>, given as attribute and keys."""

    def change(step):
        target = getattr(step, path[0])
        for key in path[1:-1]:
            target = target[key]
        target[path[-1]] = value

    return change


def set_start(tensor, core, value):
    key = f"[{core}, 0, 0]"
    return set_in(("nodes", tensor, "startAddressCoreCorelet_", "data_", key), value)


def remove(path):
    def change(step):
        target = getattr(step, path[0])
        for key in path[1:-1]:
            target = target[key]
        del target[path[-1]]

    return change


def two_members(step):
    step.whole["1_add"] = copy.deepcopy(step.sdsc)


def rename_op(step):
    step.sdsc["dscs_"][0] = {"frobnicate": step.dsc}


def rename_dim(step):
    step.dsc["N_"] = {"name_": "n", "mb": 4, "out_": 128}


def many_dims(step):
    step.dsc["N_"].update({f"d{i}_": 1 for i in range(9)})


JSON_CASES = {
    "address_segment": set_start(0, 1, str(7 << 34)),
    "address_missing": remove(("nodes", 2, "startAddressCoreCorelet_", "data_", "[1, 0, 0]")),
    "address_number": set_start(0, 0, "0x80"),
    "address_arguments": set_start(0, 1, str(1 << 34)),
    "address_core": set_start(0, 2, "0"),
    "address_alignment": set_start(0, 1, "65"),
    "address_symbol": set_start(1, 0, "-5"),
    "component": set_in(("nodes", 1, "component_"), "ddr"),
    "constants_kind": set_in(("dsc", "constantInfo_"), "none"),
    "constants_number": set_in(("dsc", "constantInfo_"), {"1": {}}),
    "core_count": set_in(("dsc", "numCoresUsed_"), 4),
    "core_missing": remove(("sdsc", "coreIdToWkSlice_", "1")),
    "core_slice_dim": set_in(("sdsc", "coreIdToWkSlice_", "1", "zz"), 1),
    "core_fold": set_in(("sdsc", "coreFoldProp_", "factor_"), 7),
    "time_fold": set_in(("sdsc", "sdscFoldProps_", 0, "factor_"), 2),
    "core_ids": set_in(("dsc", "coreIdsUsed_"), [0, 2]),
    "corelets": set_in(("sdsc", "coreletFoldProp_", "factor_"), 3),
    "corelets_apart": set_in(("nodes", 0, "startAddressCoreCorelet_", "data_", "[0, 1, 0]"), "128"),
    "corelets_used": set_in(("dsc", "numCoreletsUsed_"), 3),
    "dim_many": many_dims,
    "dim_name": rename_dim,
    "dim_size": set_in(("dsc", "N_", "mb_"), "4"),
    "dim_unknown": set_in(("nodes", 0, "layoutDimOrder_", 0), "in"),
    "dscs_two": lambda s: s.sdsc["dscs_"].append({}),
    "execution_unit": set_in(("compute", "exUnit"), "gpu"),
    "format": set_in(("labels", 1, "dataFormat_"), "FLOAT"),
    "gap_dim": set_in(("nodes", 1, "backGapCore_"), {"in": {"-1": "4"}}),
    "gap_cores": set_in(("nodes", 1, "backGapCore_"), {"mb": {"0": "4", "1": "8"}}),
    "indirection": set_in(("nodes", 1, "indirectAllocType_"), "scatter_tensor"),
    "label_count": lambda s: s.labels.pop(),
    "label_index": set_in(("labels", 1, "ldsIdx_"), 2),
    "label_layout": set_in(("labels", 1, "dsType_"), "KERNEL"),
    "label_long": set_in(("labels", 1, "dsName_"), "TensorOfALongName"),
    "live_lanes": set_in(("dsc", "liveLanes_"), 0),
    "live_lanes_beyond": set_in(("dsc", "liveLanes_"), 129),
    "mask_dim": set_in(("dsc", "coordinateMasking_"), {"out": [[100, 28]]}),
    "mask_ranges": set_in(("dsc", "coordinateMasking_"), {"out": [[0, 1], [2, 3]]}),
    "members_two": two_members,
    "node_kind": set_in(("nodes", 0, "nodeType_"), "loop"),
    "op_name": set_in(("compute", "opFuncName"), "sub"),
    "op_unknown": rename_op,
    "operand_name": set_in(("compute", "inputLabeledDs", 0), "Tensor0"),
    "operand_number": set_in(("compute", "inputLabeledDs", 1), "Tensor9-idx9"),
    "operands_few": lambda s: s.compute["inputLabeledDs"].pop(),
    "outputs_none": lambda s: s.compute["outputLabeledDs"].pop(),
    "outputs_two": lambda s: s.compute["outputLabeledDs"].append("Tensor0-idx0"),
    "scale_count": lambda s: s.labels[1]["scale_"].pop(),
    "scale_value": set_in(("labels", 1, "scale_", 0), 0),
    "slices": set_in(("sdsc", "numWkSlicesPerDim_", "mb"), 3),
    "slices_dim": set_in(("sdsc", "numWkSlicesPerDim_", "in"), 2),
    "span": set_in(("dsc", "N_", "mb_"), 1 << 23),
    "slice_size": set_in(("sdsc", "wkSliceSizePerDim_"), {"mb": 4}),
    "slice_size_dim": set_in(("sdsc", "wkSliceSizePerDim_"), {"in": 3}),
    "slice_size_kind": set_in(("sdsc", "wkSliceSizePerDim_"), 3),
    "stick_dims": set_in(("dsc", "primaryDsInfo_", "OUTPUT", "stickDimOrder_"), ["mb", "out"]),
    "stick_size": set_in(("dsc", "primaryDsInfo_", "OUTPUT", "stickSize_"), [32]),
    "symbolic_info": set_in(("dsc", "symbolicDimInfo_"), {"mb": {}}),
    "symbolic_value": set_in(("dsc", "dimToSymbolMapping_"), {"mb": [-7]}),
    "symbolic_windows": set_in(("dsc", "paddingSizes_"), {"mb": {}}),
    "tensor_missing": remove(("nodes", 2)),
    "word_length": set_in(("labels", 0, "wordLength"), 4),
}

HEAD = "module {\n\tfunc.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>) {\n"
EXTRACT = (
    "\t\t%a = sdscbundle.input_arg_extract value from %arg_0_base_addr"
    " : !sdscbundle.input_arg<index> -> index\n"
)
LOOP = "\t\t%c0 = arith.constant 0 : index\n\t\t%c1 = arith.constant 1 : index\n"
TAIL = "\t\treturn\n\t}\n}\n"
FILE = 'sdsc_filename="sdsc_0.json"'
MAP = "#map_0 = affine_map<(d0)[s0] -> (s0 + 2*d0)>\n"


def function(*lines, head=HEAD):
    return head + "".join(f"\t\t{line}\n" for line in lines) + TAIL


def with_address(*lines):
    return function(*lines, head=HEAD + EXTRACT)


def with_loop(*lines):
    return function(*lines, head=HEAD + EXTRACT + LOOP)


SIZE = "!sdscbundle.input_arg<index, granularity=2, max_value=8>"
SIZED = f"module {{\n\tfunc.func @sdsc_bundle(%n_base: {SIZE}) {{\n"
TAKEN = f"%n = sdscbundle.input_arg_extract value from %n_base : {SIZE} -> index"


def execute(operands="", attributes=FILE):
    return f"sdscbundle.sdsc_execute ({operands}) {{{attributes}}}"


FIVE_LOOPS = [f"scf.for %i{n} = %c0 to %c1 step %c1 {{" for n in range(5)] + ["}"] * 5
POOL = HEAD.replace(">)", ">, %pool_base_addr: !sdscbundle.input_arg<index>)")
MOST = 2**63 - 1

MLIR_CASES = {
    "mlir_address_twice": with_address("%b = arith.addi %a, %a : index"),
    "mlir_argument": function(head=HEAD.replace("%arg_0_base_addr", "%first")),
    "mlir_argument_order": function(
        head=HEAD.replace(">)", ">, %arg_0_base_addr: !sdscbundle.input_arg<index>)")
    ),
    "mlir_attribute": function(execute("", FILE + ", stream=1")),
    "mlir_character": function("%a ~ 3"),
    "mlir_defined_twice": with_loop("%c0 = arith.constant 0 : index"),
    "mlir_end": HEAD + EXTRACT,
    "mlir_file_missing": function(execute("", "")),
    "mlir_file_place": function(execute("", 'sdsc_filename="../sdsc_0.json"')),
    "mlir_function": "module {\n\treturn\n}\n",
    "mlir_loop_bound": with_loop("scf.for %i = %c0 to %a step %c1 {", "}"),
    "mlir_loop_depth": with_loop(*FIVE_LOOPS),
    "mlir_loop_empty": with_loop("scf.for %i = %c0 to %c0 step %c1 {", "}"),
    "mlir_loop_value": with_loop(
        "scf.for %i = %c0 to %c1 step %c1 {", "}", "%x = arith.addi %i, %c1 : index"
    ),
    "mlir_map_dim": function(head="#map_0 = affine_map<(d0)[s0] -> (s0 + 2*d1)>\n" + HEAD),
    "mlir_map_linear": function(head="#map_0 = affine_map<(d0)[s0] -> (s0*d0)>\n" + HEAD),
    "mlir_map_operands": MAP + with_address("%x = affine.apply #map_0()[%a]"),
    "mlir_map_results": function(head="#map_0 = affine_map<(d0) -> (d0, d0)>\n" + HEAD),
    "mlir_map_undefined": with_address("%x = affine.apply #map_7(%a)"),
    "mlir_number": function(f"%x = arith.constant {MOST + 1} : index"),
    "mlir_operation": with_address("%x = arith.muli %a, %a : index"),
    "mlir_overflow": function(f"%x = arith.constant {MOST} : index", "%y = arith.addi %x, %x"),
    "mlir_pool_second": function(head=POOL),
    "mlir_statement": function("sdscbundle.sdsc_wait ()"),
    "mlir_string": function('sdscbundle.sdsc_execute () {sdsc_filename="sdsc'),
    "mlir_symbol_count": with_address(execute("%a", FILE + ', "symbol_ids"=[-1, -2]')),
    "mlir_symbol_sign": with_address(execute("%a", FILE + ', "symbol_ids"=[1]')),
    "mlir_undefined": function(execute("%b")),
    "mlir_size_kind": function(head=SIZED.replace("max_value", "most")),
    "mlir_size_name": function(head=SIZED.replace("%n_base:", f"%n: {SIZE}, %n_base:")),
    "mlir_size_range": function(head=SIZED.replace("max_value=8", "max_value=7")),
    "mlir_size_sum": function(TAKEN, "%x = arith.addi %n, %n : index", head=SIZED),
    "mlir_size_field": function(TAKEN.replace("value from", "least from"), head=SIZED),
    "mlir_size_loop": function(
        TAKEN,
        "%c0 = arith.constant 0 : index",
        "%c3 = arith.constant 3 : index",
        "scf.for %i = %c0 to %n step %c3 {",
        "}",
        head=SIZED,
    ),
}

WITH_SYMBOL = FILE + ', "symbol_ids"=[-1]'


def symbolic(step, size=None, most=None, start=None, ids=(-1,), dim="mb", slices=None):
    step.dsc["dimToSymbolMapping_"] = {"mb": list(ids)}
    if slices is not None:
        step.sdsc["numWkSlicesPerDim_"][dim] = slices
    if size is not None:
        step.dsc["N_"]["mb_"] = size
        for node in (0, 2):
            data = step.nodes[node]["startAddressCoreCorelet_"]["data_"]
            data["[1, 0, 0]"] = start or str(int(data["[1, 0, 0]"]) + 256)
    if most is not None:
        stage = step.dsc["dataStageParam_"]["0"]["ss_"]
        stage["symbolicDimInfo_"] = {"mb": {"maxSize_": 8, "granularity_": most}}


# The second core moves on otherwise than the first.
TWO_STRIDES = (
    "#map_1 = affine_map<(d0, d1)[s0] -> (s0 + 512*d0 + 128*d1)>\n"
    + (GOLDEN / "loops" / "bundle.mlir").read_text()
).replace("%addr_1 = affine.apply #map_0", "%addr_1 = affine.apply #map_1")

# Cases of other golden bundles: case, golden bundle, change, bundle.mlir
OTHER_CASES = [
    *(
        (case, "add_scalar", change, function(TAKEN, execute("%n", WITH_SYMBOL), head=head))
        for case, change, head in [
            ("symbolic_no_slices", lambda step: symbolic(step, 8, slices=0), SIZED),
            ("symbolic_other_dim", lambda step: symbolic(step, 8, dim="out", slices=0), SIZED),
            ("symbolic_most", lambda step: symbolic(step), SIZED),
            ("symbolic_slices", lambda step: symbolic(step, 8, 4), SIZED.replace("y=2", "y=1")),
            ("symbolic_stage", lambda step: symbolic(step, 8, 4), SIZED),
            ("symbolic_start", lambda step: symbolic(step, 8, start="128"), SIZED),
            ("symbolic_two", lambda step: symbolic(step, 8, ids=[-1, -1]), SIZED),
        ]
    ),
    ("address_strides", "loops", lambda step: None, TWO_STRIDES),
    (
        "shuffle_core",
        "shuffle",
        remove(("nodes", 0, "coordinates_", "coreIdToWkSlice_", "1")),
        EXECUTE,
    ),
    (
        "shuffle_owners",
        "shuffle",
        set_in(("nodes", 0, "coordinates_", "coreIdToWkSlice_", "1", "mb"), 3),
        EXECUTE,
    ),
    (
        "constant_bits",
        "mean_rows",
        set_in(("dsc", "constantInfo_", "0", "data_", "data_", "[0, 0, 0]"), [1, 2]),
        EXECUTE,
    ),
    ("constant_missing", "mean_rows", set_in(("dsc", "constantInfo_"), "{}"), EXECUTE),
    (
        "gather_peer",
        "gather",
        set_in(("nodes", 0, "relatedIndirectAccessAlloc_"), "allocate-Tensor7_hbm"),
        EXECUTE,
    ),
    ("gather_dims", "gather", set_in(("nodes", 1, "maxDimSizes_"), [1, 1]), EXECUTE),
    (
        "lx_symbol",
        "softmax",
        set_start(1, 0, "-1"),
        with_address(execute("%a", FILE + ', "symbol_ids"=[-1]')),
    ),
    (
        "gap_whole",
        "add_scalar",
        set_in(("nodes", 0, "backGapCore_"), {"mb": {"-1": "-4"}}),
        EXECUTE,
    ),
]


def main():
    for case, change in JSON_CASES.items():
        broken(case, change)
    for case, golden, change, mlir in OTHER_CASES:
        broken(case, change, golden, mlir)
    text = json.dumps(Step("add_scalar").whole)
    write("json_end", EXECUTE, text[:300] + "\n")
    write("json_key_twice", EXECUTE, '{"0_add": {}, "0_add": {}}\n')
    write("json_kind", EXECUTE, '["0_add"]\n')
    for case, mlir in MLIR_CASES.items():
        write(case, mlir, None)


if __name__ == "__main__":
    main()
