# SPDX-License-Identifier: Apache-2.0
"""`spyre bisect`: a bundle by the interpreter and on the card."""

import pytest
from command import BUNDLES


@pytest.mark.parametrize("option, form", [("--input", "0={}"), ("--inputs", "{}")])
def test_every_step_is_right(spyre, tmp_path, option, form):
    (tmp_path / "x").write_bytes(bytes(range(128)) * 8)
    given = [option, form.format(tmp_path / "x"), "--size", "1=1024"]
    text = spyre.good("bisect", BUNDLES / "softmax", *given)
    assert text == "all steps together: equal\neach step by itself: 0 of 5 differ\n"


@pytest.mark.parametrize("name", ["gather", "layernorm", "loops", "matmul", "restickify"])
def test_zeros(spyre, name):
    sizes = [f"--size={k}=65536" for k in range(8)]
    for count in range(8, 0, -1):
        done = spyre("bisect", BUNDLES / name, *sizes[:count])
        if done.returncode == 0:
            assert "all steps together: equal\n" in done.stdout
            return
        assert f"no launch argument {count - 1}" in done.stderr
    raise AssertionError("no number of arguments was right")


def test_wrong_arguments(spyre, tmp_path):
    bundle = BUNDLES / "softmax"
    assert "launch argument 1 of 2: its size is not given" in spyre.bad(
        "bisect", bundle, "--size", "0=1024"
    )
    assert "no launch argument 2, only 2" in spyre.bad("bisect", bundle, "--size", "2=1024")
    assert "no file with bytes" in spyre.bad("bisect", bundle, "--input", f"0={tmp_path}/none")
    assert "expected NUMBER=VALUE" in spyre.bad("bisect", bundle, "--size", "0=x")
    assert "the directory of a bundle is missing" in spyre.bad("bisect")
    assert "files are missing" in spyre.bad("bisect", bundle, "--inputs", "--size", "0=1")
    assert "none" in spyre.bad("bisect", tmp_path / "none", "--size", "0=1")
