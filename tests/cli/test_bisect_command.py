# SPDX-License-Identifier: Apache-2.0
"""`spyre bisect`: a bundle by the interpreter and on the card."""

import re

import pytest
from command import BUNDLES


@pytest.mark.parametrize("option, form", [("--input", "0={}"), ("--inputs", "{}")])
def test_every_step_is_right(spyre, tmp_path, option, form):
    (tmp_path / "x").write_bytes(bytes(range(128)) * 8)
    given = [option, form.format(tmp_path / "x"), "--size", "1=1024"]
    text = spyre.good("bisect", BUNDLES / "softmax", *given)
    assert text == "all steps together: equal\neach step by itself: 0 of 5 differ\n"


SAMPLES = ["gather", "layernorm", "loops", "matmul", "restickify", "softmax"]


@pytest.mark.parametrize("name", SAMPLES)
def test_sizes_are_as_far_as_the_steps_go(spyre, name):
    assert "all steps together: equal\n" in spyre.good("bisect", BUNDLES / name)


def test_a_table_needs_its_size(spyre, bundle):
    directory = bundle("gather")
    file = directory / "sdsc_0.json"
    file.write_text(re.sub(r'"indexedDimSize_": \d+,', "", file.read_text()))
    text = spyre.bad("bisect", directory)
    asked = re.search(r"launch argument (\d) of \d: its size, which says how many rows", text)[1]
    text = spyre.good("bisect", directory, f"--size={asked}=65536")
    assert "all steps together: equal\n" in text


def test_wrong_arguments(spyre, tmp_path):
    bundle = BUNDLES / "softmax"
    assert "no launch argument 2, only 2" in spyre.bad("bisect", bundle, "--size", "2=1024")
    assert "no file with bytes" in spyre.bad("bisect", bundle, "--input", f"0={tmp_path}/none")
    assert "expected NUMBER=VALUE" in spyre.bad("bisect", bundle, "--size", "0=x")
    assert "the directory of a bundle is missing" in spyre.bad("bisect")
    assert "files are missing" in spyre.bad("bisect", bundle, "--inputs", "--size", "0=1")
    missing = tmp_path / "none"
    assert spyre.bad("bisect", missing).count(str(missing)) == 1
