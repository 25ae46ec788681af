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
EXECUTE = 'module {\n\tfunc.func @f() {\n\t\tsdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json"}\n\t\treturn\n\t}\n}\n'


class Step:
    """The JSON of step 0 of a golden bundle, with short ways to its parts."""

    def __init__(self, case, number=0):
        self.whole = json.loads((GOLDEN / case / f"sdsc_{number}.json").read_text())
        (self.name,) = self.whole
        self.sdsc = self.whole[self.name]
        (self.op,) = self.sdsc["dscs_"][0]
        self.dsc = self.sdsc["dscs_"][0][self.op]
        self.nodes, self.labels = self.dsc["scheduleTree_"], self.dsc["labeledDs_"]
        self.compute = self.dsc["computeOp_"][0]

    def starts(self, tensor):
        return self.nodes[tensor]["startAddressCoreCorelet_"]["data_"]


def write(case, mlir, text):
    folder = HERE / case / "files"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bundle.mlir").write_text(mlir)
    if text is not None:
        (folder / "sdsc_0.json").write_text(text)


def broken(case, change, golden="add_scalar", number=0, mlir=EXECUTE):
    step = Step(golden, number)
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
    step.dsc["N_"].update({f"d{i}_": 1 for i in range(7)})


JSON_CASES = {
    "address_segment": set_in(("nodes", 0, "startAddressCoreCorelet_", "data_", "[1, 0, 0]"), str(7 << 34)),
    "address_missing": remove(("nodes", 2, "startAddressCoreCorelet_", "data_", "[1, 0, 0]")),
    "address_number": set_in(("nodes", 0, "startAddressCoreCorelet_", "data_", "[0, 0, 0]"), "0x80"),
    "address_core": set_in(("nodes", 0, "startAddressCoreCorelet_", "data_", "[2, 0, 0]"), "0"),
    "address_alignment": set_in(("nodes", 0, "startAddressCoreCorelet_", "data_", "[1, 0, 0]"), "66"),
    "address_symbol": set_in(("nodes", 1, "startAddressCoreCorelet_", "data_", "[0, 0, 0]"), "-5"),
    "component": set_in(("nodes", 1, "component_"), "ddr"),
    "constants_kind": set_in(("dsc", "constantInfo_"), "none"),
    "constants_number": set_in(("dsc", "constantInfo_"), {"1": {}}),
    "core_count": set_in(("dsc", "numCoresUsed_"), 4),
    "core_missing": remove(("sdsc", "coreIdToWkSlice_", "1")),
    "core_slice_dim": set_in(("sdsc", "coreIdToWkSlice_", "1", "zz"), 1),
    "corelets": set_in(("sdsc", "coreletFoldProp_", "factor_"), 2),
    "dim_many": many_dims,
    "dim_name": rename_dim,
    "dim_size": set_in(("dsc", "N_", "mb_"), "4"),
    "dim_unknown": set_in(("nodes", 0, "layoutDimOrder_", 0), "in"),
    "dscs_two": lambda s: s.sdsc["dscs_"].append({}),
    "format": set_in(("labels", 1, "dataFormat_"), "FLOAT"),
    "gap_dim": set_in(("nodes", 1, "backGapCore_"), {"in": {"-1": "4"}}),
    "gap_cores": set_in(("nodes", 1, "backGapCore_"), {"mb": {"0": "4", "1": "8"}}),
    "indirection": set_in(("nodes", 1, "indirectAllocType_"), "scatter_tensor"),
    "label_count": lambda s: s.labels.pop(),
    "label_index": set_in(("labels", 1, "ldsIdx_"), 2),
    "label_layout": set_in(("labels", 1, "dsType_"), "KERNEL"),
    "label_long": set_in(("labels", 1, "dsName_"), "TensorOfALongName"),
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
    "stick_dims": set_in(("dsc", "primaryDsInfo_", "OUTPUT", "stickDimOrder_"), ["mb", "out"]),
    "stick_size": set_in(("dsc", "primaryDsInfo_", "OUTPUT", "stickSize_"), [32]),
    "symbolic_sizes": set_in(("dsc", "symbolicDimInfo_"), {"mb": "s0"}),
    "tensor_missing": remove(("nodes", 2)),
    "word_length": set_in(("labels", 0, "wordLength"), 4),
}

HEAD = "module {\n\tfunc.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>) {\n"
EXTRACT = "\t\t%a = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index\n"
LOOP = "\t\t%c0 = arith.constant 0 : index\n\t\t%c1 = arith.constant 1 : index\n"
TAIL = "\t\treturn\n\t}\n}\n"

MLIR_CASES = {
    "mlir_address_twice": HEAD + EXTRACT + "\t\t%b = arith.addi %a, %a : index\n" + TAIL,
    "mlir_argument": HEAD.replace("%arg_0_base_addr", "%first") + TAIL,
    "mlir_attribute": HEAD + '\t\tsdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json", stream=1}\n' + TAIL,
    "mlir_character": HEAD + "\t\t%a ? 3\n" + TAIL,
    "mlir_defined_twice": HEAD + LOOP + "\t\t%c0 = arith.constant 0 : index\n" + TAIL,
    "mlir_end": HEAD + EXTRACT,
    "mlir_file_missing": HEAD + "\t\tsdscbundle.sdsc_execute () {}\n" + TAIL,
    "mlir_file_place": HEAD + '\t\tsdscbundle.sdsc_execute () {sdsc_filename="../sdsc_0.json"}\n' + TAIL,
    "mlir_function": "module {\n\treturn\n}\n",
    "mlir_loop_bound": HEAD + EXTRACT + LOOP + "\t\tscf.for %i = %c0 to %a step %c1 {\n\t\t}\n" + TAIL,
    "mlir_loop_depth": HEAD + LOOP + "".join(f"\t\tscf.for %i{n} = %c0 to %c1 step %c1 {{\n" for n in range(5)) + "}" * 5 + TAIL,
    "mlir_loop_empty": HEAD + LOOP + "\t\tscf.for %i = %c0 to %c0 step %c1 {\n\t\t}\n" + TAIL,
    "mlir_loop_value": HEAD + LOOP + "\t\tscf.for %i = %c0 to %c1 step %c1 {\n\t\t}\n\t\t%x = arith.addi %i, %c1 : index\n" + TAIL,
    "mlir_map_dim": "#map_0 = affine_map<(d0)[s0] -> (s0 + 2*d1)>\n" + HEAD + TAIL,
    "mlir_map_linear": "#map_0 = affine_map<(d0)[s0] -> (s0*d0)>\n" + HEAD + TAIL,
    "mlir_map_operands": "#map_0 = affine_map<(d0)[s0] -> (s0 + 2*d0)>\n" + HEAD + EXTRACT + "\t\t%x = affine.apply #map_0()[%a]\n" + TAIL,
    "mlir_map_results": "#map_0 = affine_map<(d0) -> (d0, d0)>\n" + HEAD + TAIL,
    "mlir_map_undefined": HEAD + EXTRACT + "\t\t%x = affine.apply #map_7(%a)\n" + TAIL,
    "mlir_number": HEAD + "\t\t%x = arith.constant 9223372036854775808 : index\n" + TAIL,
    "mlir_operation": HEAD + EXTRACT + "\t\t%x = arith.muli %a, %a : index\n" + TAIL,
    "mlir_overflow": HEAD + "\t\t%x = arith.constant 9223372036854775807 : index\n\t\t%y = arith.addi %x, %x : index\n" + TAIL,
    "mlir_pool_second": HEAD.replace(">)", ">, %pool_base_addr: !sdscbundle.input_arg<index>)") + TAIL,
    "mlir_statement": HEAD + "\t\tsdscbundle.sdsc_wait ()\n" + TAIL,
    "mlir_string": HEAD + '\t\tsdscbundle.sdsc_execute () {sdsc_filename="sdsc\n' + TAIL,
    "mlir_symbol_count": HEAD + EXTRACT + '\t\tsdscbundle.sdsc_execute (%a) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}\n' + TAIL,
    "mlir_symbol_sign": HEAD + EXTRACT + '\t\tsdscbundle.sdsc_execute (%a) {sdsc_filename="sdsc_0.json", "symbol_ids"=[1]}\n' + TAIL,
    "mlir_undefined": HEAD + "\t\tsdscbundle.sdsc_execute (%b) {sdsc_filename=\"sdsc_0.json\"}\n" + TAIL,
}


def main():
    for case, change in JSON_CASES.items():
        broken(case, change)
    broken("constant_bits", set_in(("dsc", "constantInfo_", "0", "data_", "data_", "[0, 0, 0]"), [1, 2]), "mean_rows")
    broken("constant_missing", set_in(("dsc", "constantInfo_"), "{}"), "mean_rows")
    broken("gather_peer", set_in(("nodes", 0, "relatedIndirectAccessAlloc_"), "allocate-Tensor7_hbm"), "gather")
    broken("gather_dims", set_in(("nodes", 1, "maxDimSizes_"), [1, 1]), "gather")
    broken("lx_symbol", set_in(("nodes", 1, "startAddressCoreCorelet_", "data_", "[0, 0, 0]"), "-1"), "softmax", 0,
           HEAD + EXTRACT + '\t\tsdscbundle.sdsc_execute (%a) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1]}\n' + TAIL)
    broken("relayout_gap", set_in(("nodes", 0, "backGapCore_", "out", "-1"), "128"), "restickify")
    text = json.dumps(Step("add_scalar").whole)
    write("json_end", EXECUTE, text[:300] + "\n")
    write("json_key_twice", EXECUTE, '{"0_add": {}, "0_add": {}}\n')
    write("json_kind", EXECUTE, '["0_add"]\n')
    for case, mlir in MLIR_CASES.items():
        write(case, mlir, None)


if __name__ == "__main__":
    main()
