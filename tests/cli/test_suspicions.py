# SPDX-License-Identifier: Apache-2.0
"""What `spyre inspect` finds suspicious in bundles that break no rule."""

import re

import pytest
from command import BUNDLES


def findings(spyre, directory):
    text = spyre.good("inspect", directory)
    return text.partition("\nsuspicious\n")[2].splitlines()


def edit(directory, file, old, new):
    path = directory / file
    text, count = re.subn(old, new, path.read_text())
    assert count
    path.write_text(text)


@pytest.mark.parametrize("name", ["add_scalar", "layernorm", "loops", "matmul", "softmax", "topk"])
def test_nothing(spyre, name):
    assert findings(spyre, BUNDLES / name) == []


def test_results_that_nothing_reads(spyre, bundle):
    directory = bundle("add_scalar")
    line = '\t\tsdscbundle.sdsc_execute () {sdsc_filename="sdsc_%d.json"}\n'
    (directory / "sdsc_1.json").write_text(
        (directory / "sdsc_0.json").read_text().replace('"0_', '"1_', 1)
    )
    edit(directory, "bundle.mlir", re.escape(line % 0), (line % 0 + line % 1).replace("\\", ""))
    lost = r"step 1 1_add: writes over (\d+) of the \1 sticks that step 0 0_add wrote"
    assert any(re.search(lost, found) for found in findings(spyre, directory))


def test_loops_that_leave_gaps(spyre, bundle):
    directory = bundle("loops")
    edit(directory, "bundle.mlir", r"512\*d0", "1024*d0")
    found = findings(spyre, directory)
    assert any("Tensor0 advances by 1024 bytes a round of loop 0" in line for line in found)


def test_tables_of_unknown_size(spyre, bundle):
    directory = bundle("gather")
    edit(directory, "sdsc_0.json", r'"indexedDimSize_": *\d+,?', "")
    found = findings(spyre, directory)
    assert any("nothing says how many rows the table Tensor1 has" in line for line in found)
    assert any("start addresses of the table Tensor1 are not used" in line for line in found)
    assert "of as many rows as that has" in spyre.good("inspect", directory)


def test_gaps_of_the_other_sign(spyre):
    found = findings(spyre, BUNDLES / "restickify")
    assert len(found) == 2 and all("the reverse of all other opfuncs" in line for line in found)


def test_lx_that_an_earlier_launch_left(spyre, bundle):
    directory = bundle("softmax")
    line = (directory / "bundle.mlir").read_text().splitlines()
    first = next(i for i, text in enumerate(line) if "sdsc_execute" in text)
    (directory / "bundle.mlir").write_text("\n".join(line[:first] + line[first + 1 :]) + "\n")
    assert any(
        "sticks of LX that no step has written" in text for text in findings(spyre, directory)
    )


def test_fields_that_are_not_understood(spyre, bundle):
    directory = bundle("add_scalar")
    edit(directory, "sdsc_0.json", r'"numCoresUsed_"', '"colour_": 3, "numCoresUsed_"')
    assert "not understood: " in spyre.good("inspect", directory)


def test_a_result_in_the_place_of_another_operand(spyre, bundle):
    directory = bundle("softmax")
    for step in (1, 2, 3):
        edit(directory, f"sdsc_{step}.json", r'(, 0, 0\]": *)"4096"', r'\1"0"')
    found = findings(spyre, directory)
    assert any(
        "step 1 1_sub: Tensor2 takes the place of 4 sticks that the step reads for other" in line
        for line in found
    )
    assert not any("2_exp: Tensor1 takes" in line for line in found)  # element by element


def test_values_that_only_some_steps_have_written(spyre, bundle):
    directory = bundle("add_scalar")
    line = '\t\tsdscbundle.sdsc_execute () {sdsc_filename="sdsc_%d.json"}\n'
    second = (directory / "sdsc_0.json").read_text().replace('"0_', '"1_', 1)
    places = {str(core * 256): str((2 << 34) + core * 256 + 128) for core in (0, 1)}
    for old, new in places.items():
        second = re.sub(rf'(, 0, 0\]": *)"{old}"', rf'\1"{new}"', second, count=1)
    (directory / "sdsc_1.json").write_text(second)
    edit(directory, "bundle.mlir", re.escape(line % 0), (line % 0 + line % 1).replace("\\", ""))
    found = findings(spyre, directory)
    assert any("reads 1 sticks that no step has written, beside 7 that" in text for text in found)


def test_factors_of_means(spyre, bundle):
    directory = bundle("mean_rows")
    assert findings(spyre, directory) == []
    edit(directory, "sdsc_0.json", r"1040187392", "1031798784")
    [found] = findings(spyre, directory)
    assert "scaling_factor is 0.0625, not one part of the 8 elements that are reduced" in found


def test_arguments_of_no_step(spyre, bundle):
    directory = bundle("add_scalar")
    edit(directory, "sdsc_0.json", str(1 << 34), str(3 << 34))
    assert findings(spyre, directory) == ["    no step uses argument 1"]


def test_what_the_back_end_refuses(spyre, bundle):
    directory = bundle("softmax")
    edit(directory, "sdsc_0.json", r"4286578688", "0")
    [found] = findings(spyre, directory)
    assert "the back-end refuses it: step 0 0_max: maskingConstId_: max masked with 0" in found


def test_lx_that_nothing_reads(spyre, bundle):
    directory = bundle("softmax")
    lines = (directory / "bundle.mlir").read_text().splitlines(True)
    (directory / "bundle.mlir").write_text("".join(x for x in lines if "sdsc_4" not in x))
    found = findings(spyre, directory)
    assert any("3_sum: no step reads 4 of the 4 sticks of LX" in line for line in found)
    assert not any("1_sub: no step reads" in line for line in found)


def test_masks_of_whole_sticks(spyre, bundle):
    directory = bundle("softmax")
    edit(directory, "sdsc_0.json", r"\[\s*\[\s*\d+,\s*\d+\s*\]\s*\]", "[[64, 64]]")
    found = findings(spyre, directory)
    assert any("64 elements of out are masked, at least a stick" in line for line in found)


def test_parameters_that_leave_no_number(spyre, bundle):
    directory = bundle("layernorm")
    edit(directory, "sdsc_1.json", r"925353388", "3072837036")  # the sign of eps
    assert any("eps is -1e-05" in line for line in findings(spyre, directory))


def test_operands_in_two_formats(spyre, bundle):
    directory = bundle("add_scalar")
    path = directory / "sdsc_0.json"
    text = path.read_text()
    at = text.index(
        '"dataFormat_": "SEN169_FP16"', text.index('"Tensor1"', text.index("labeledDs_"))
    )
    path.write_text(text[:at] + text[at:].replace("SEN169_FP16", "IEEE_FP16", 1))
    assert any("operands are SEN169_FP16 and IEEE_FP16" in x for x in findings(spyre, directory))
