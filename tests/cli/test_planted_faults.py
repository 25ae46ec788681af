# SPDX-License-Identifier: Apache-2.0
"""Faults of a front-end, planted one at a time: `inspect` names each in plain words, or it is
refused. The first part is what torch-spyre's front-end is known to write or to rely on, the
second part what any bundle says twice; nothing is named of the bundles as they were."""

import json
import re

import pytest
from test_suspicions import findings


class Bundle:
    """A copy of a golden bundle; `with bundle.step(n) as sdsc, dsc` to change a file of it."""

    def __init__(self, directory):
        self.directory = directory

    def change(self, number, edit):
        path = self.directory / f"sdsc_{number}.json"
        whole = json.loads(path.read_text())
        (sdsc,) = whole.values()
        (dsc,) = sdsc["dscs_"][0].values()
        edit(sdsc, dsc)
        path.write_text(json.dumps(whole))

    def program(self, edit):
        path = self.directory / "bundle.mlir"
        path.write_text("".join(edit(path.read_text().splitlines(keepends=True))))


def starts(dsc, tensor):
    return dsc["scheduleTree_"][tensor]["startAddressCoreCorelet_"]["data_"]


def shift(tensor, by, cores=slice(None)):
    """All places of a tensor, or those of some cores, `by` bytes further."""

    def edit(_sdsc, dsc):
        data = starts(dsc, tensor)
        for key in list(data)[cores]:
            data[key] = str(int(data[key]) + by)

    return edit


def put(*path, value):
    """dsc[path] = value."""

    def edit(_sdsc, dsc):
        at = dsc
        for key in path[:-1]:
            at = at[key]
        assert at[path[-1]] != value
        at[path[-1]] = value

    return edit


def put_above(*path, value):
    """sdsc[path] = value."""
    return lambda sdsc, _dsc: put(*path, value=value)(None, sdsc)


def executes(lines):
    return [n for n, line in enumerate(lines) if "sdsc_execute" in line]


def twice(lines):
    at = executes(lines)[-1]
    return [*lines[: at + 1], lines[at], *lines[at + 1 :]]


def without(number):
    return lambda lines: [x for n, x in enumerate(lines) if n != executes(lines)[number]]


# Of which bundle, which step; the edit; what is said of it.
OF_STEPS = {
    "a result begins a stick further": (
        "add_scalar", 0, shift(2, 128), "no step writes the first 1 sticks of argument 2"),
    "a result of one core begins a stick further": (
        "add_scalar", 0, shift(2, 128, slice(1, 2)), "but its slices begin at"),
    "LX is read a stick further than it was written": (
        "softmax", 3, shift(0, 128), "sticks of LX that no step has written"),
    "LX of one core is written elsewhere": (
        "softmax", 0, shift(1, 1 << 16, slice(1, 2)), "sticks of LX that no step has written"),
    "an argument that does not exist": ("add_scalar", 0, shift(0, 7 << 34), None),
    "reversed gaps": ("restickify", 0, lambda *_: None, "the reverse of all other opfuncs"),
    "a table whose rows are not known": (
        "gather", 0, lambda _, dsc: dsc["scheduleTree_"][1].pop("indexedDimSize_"),
        "nothing says how many rows the table Tensor1 has"),
    "a factor that is not one part of the elements": (
        "mean_rows", 0, put("constantInfo_", "0", "data_", "data_", "[0, 0, 0]", 0,
                            value=1031798784), "not one part of the 8 elements"),
    "a format of the step that is not its operands'": (
        "add_scalar", 0, put("computeOp_", 0, "attributes_", "dataFormat_", value="IEEE_FP32"),
        "attributes_.dataFormat_ is IEEE_FP32, its first operand SEN169_FP16"),
    "pages where nothing is indexed": (
        "add_scalar", 0, put("scheduleTree_", 0, "maxDimSizes_", 0, value=1),
        "no index chooses among its rows"),
    "a constant masks, and nothing is masked": (
        "softmax", 1, put("maskingConstId_", value=0), "maskingConstId_ is 0"),
    "another unit": ("matmul", 0, put("computeOp_", 0, "exUnit", value="sfp"), None),
    "sizes of a core that are not its slices": (
        "matmul", 0, put("dataStageParam_", "0", "ss_", "out_", value=32),
        "dataStageParam_.0.ss_.out_ is 32, and the fields that count make it"),
    "coordinates of another size": (
        "add_scalar", 0, lambda _, dsc: halve(dsc["scheduleTree_"][0]["coordinates_"]),
        "coordinates_.coordInfo"),
    "another word length": ("add_scalar", 0, put("labeledDs_", 0, "wordLength", value=4), None),
    "a shorter stick": ("add_scalar", 0, put(
        "primaryDsInfo_", "OUTPUT", "stickSize_", 0, value=32), None),
    "a layout that is not there": ("add_scalar", 0, put(
        "labeledDs_", 0, "dsType_", value="X"), None),
    "another number of cores": ("add_scalar", 0, put_above(
        "coreFoldProp_", "factor_", value=1), None),
    "cores by other names": ("add_scalar", 0, put("coreIdsUsed_", 1, value=5), None),
    "more slices than cores": ("add_scalar", 0, put_above(
        "numWkSlicesPerDim_", "mb", value=4), None),
    "two cores with one slice": ("add_scalar", 0, put_above(
        "coreIdToWkSlice_", "1", value={"mb": 0, "out": 0}), None),
    "a place in memory that is no memory": ("add_scalar", 0, shift(0, 64, slice(0, 1)), "Tensor0"),
}  # fmt: skip


def halve(coordinates):
    """Half of the elements of a stick."""
    fold = coordinates["coordInfo"]["out"]["folds"]["dim_prop_attr"][-1]
    assert fold["factor_"] > 1
    fold["factor_"] //= 2


def with_one_symbol_twice(lines):
    return [line.replace("[-1, -2,", "[-1, -1,").replace("-7", "-2") for line in lines]


def with_symbols_of_another_step(lines):
    return [line.replace("-10]", "-6]") for line in lines]


OF_PROGRAMS = {
    "a symbol of two steps": ("sizes", with_symbols_of_another_step, None),
    "a symbol with two operands": ("sizes", with_one_symbol_twice, None),
    "a step twice": ("softmax", twice, "does what the step before it has done"),
    "a result that nothing needs": ("softmax", without(4), "no step reads"),
    "an operand that is not there": ("softmax", without(0), "that no step has written"),
}


def check(spyre, directory, said):
    if said is None:
        assert re.search(r"sdsc_\d|step \d", spyre.bad("inspect", directory))
    else:
        found = findings(spyre, directory)
        assert any(said in line for line in found), found


@pytest.mark.parametrize("fault", OF_STEPS)
def test_of_steps(spyre, bundle, fault):
    name, number, edit, said = OF_STEPS[fault]
    made = Bundle(bundle(name))
    made.change(number, edit)
    check(spyre, made.directory, said)


@pytest.mark.parametrize("fault", OF_PROGRAMS)
def test_of_programs(spyre, bundle, fault):
    name, edit, said = OF_PROGRAMS[fault]
    made = Bundle(bundle(name))
    made.program(edit)
    check(spyre, made.directory, said)


# How two corelets share a core's slices is the back-end's; folds over time and of one value.
FREE = {"coreletFoldProp_", "numCoreletsUsed_", "sdscFoldProps_", "sdscFolds_", "dim_prop_attr"}


# How two corelets share a core's slices is the back-end's; folds over time and of one value.
FREE = {"coreletFoldProp_", "numCoreletsUsed_", "sdscFoldProps_", "sdscFolds_", "dim_prop_attr"}


def places(value, path=()):
    """Each number, name and list of names of a tree."""
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in entries:
            yield from places(entry, (*path, key))
        if not isinstance(value, list) or len(value) < 2 or not isinstance(value[0], str):
            return
    yield path, value


def others(value):
    if isinstance(value, int):
        yield from {value + 1, value * 2, -value} - {value}
    elif isinstance(value, list):
        yield [value[1], value[0], *value[2:]]
    elif value == "SEN169_FP16":
        yield "IEEE_FP32"
    elif value.isdecimal():
        yield str(int(value) + 128)


@pytest.mark.long
@pytest.mark.parametrize("name", ["softmax", "matmul", "layernorm", "add_scalar"])
def test_of_every_field(spyre, bundle, name):
    """Whatever one field says otherwise is named or refused, but for one in twenty: those make the
    bundle that of another program, or say nothing."""
    made, planted, named = bundle(name), 0, 0
    before = set(findings(spyre, made))
    for path in sorted(made.glob("sdsc_*.json")):
        text = path.read_text()
        for place, value in list(places(json.loads(text))):
            if FREE & set(place) and "coordinates_" not in place:
                continue
            for other in others(value):
                whole = json.loads(text)
                put(*place, value=other)(None, whole)
                path.write_text(json.dumps(whole))
                done = spyre("inspect", made)
                found = set(done.stdout.partition("\nsuspicious\n")[2].splitlines())
                planted += 1
                named += done.returncode == 2 or bool(found - before)
        path.write_text(text)
    assert named >= planted * 0.95 > 300, f"{named} of {planted}"


def test_a_symbol_of_two_steps(spyre, bundle):
    """Each finds a place of its own for it, so that it is no error."""
    made = Bundle(bundle("sizes"))
    made.program(lambda lines: [line.replace("[-7,", "[-1,") for line in lines])
    made.change(1, lambda _, dsc: starts(dsc, 0).update({"[0, 0, 0]": "-1"}))
    found = findings(spyre, made.directory)
    assert any("gives symbol -1 another operand" in line for line in found), found
