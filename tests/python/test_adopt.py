# SPDX-License-Identifier: Apache-2.0
"""`spyre adopt`: another project's torch_spyre package on this stack's binding."""

import pathlib
import shutil
import subprocess
import sys
import types

import pytest
import torch
from test_program import compiled_sum
from torch_spyre.adopt import offsets

CHECKOUT = pathlib.Path(__file__).parent / "foreign_checkout"
SPYRE = pathlib.Path(sys.executable).parent / "spyre"


def run(*arguments):
    return subprocess.run([SPYRE, "adopt", *arguments], capture_output=True, text=True)


def test_a_foreign_package_runs_on_the_binding(tmp_path):
    x, y = (torch.zeros(3, 70, dtype=torch.float16, device="spyre") for _ in range(2))
    bundle = tmp_path / "sdsc_add_x1"
    compiled_sum(x, y).write(0, "bundle", str(bundle))
    shutil.copytree(CHECKOUT, tmp_path / "foreign_checkout")
    checkout = tmp_path / "foreign_checkout"
    before = sorted(checkout.rglob("*.py"))
    done = run(checkout, "--", "python", checkout / "program.py", bundle)
    assert (done.returncode, done.stdout) == (0, "all of it\n"), done.stderr
    assert done.stderr == ""
    assert sorted(checkout.rglob("*.py")) == before


def test_wrong_arguments_are_one_line(tmp_path):
    for arguments, said in [
        ((), "the directory of a checkout is missing"),
        ((tmp_path,), "expected DIR -- COMMAND"),
        ((tmp_path, "--", "python"), "no torch_spyre/__init__.py"),
        ((CHECKOUT, "--", "no-such-command"), "no-such-command: no such command"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2 and done.stdout == ""
        assert said in done.stderr and done.stderr.count("\n") == 1


def test_no_program_has_the_place_of_an_input():
    """What a checkout says of the place of a view is taken out of its layouts; refusals stay."""

    def layout_of(given):
        return types.SimpleNamespace(offset=given, size=[4]) if given else None

    def reoffset(node, offset):
        if offset % 64:
            raise ValueError("inside of a stick")
        return node + offset

    module = types.SimpleNamespace(_eager_view_input_layout=layout_of, _reoffset=reoffset)
    offsets.amend(module)
    assert module._eager_view_input_layout(0) is None
    taken = module._eager_view_input_layout(128)
    assert taken.offset == 0 and taken.size == [4]
    assert module._reoffset(1000, 64) == 1000
    with pytest.raises(ValueError, match="inside of a stick"):
        module._reoffset(1000, 65)
    other = types.SimpleNamespace(_reoffset_all=reoffset)
    offsets.amend(other)
    assert other._reoffset_all is reoffset


def test_a_kernel_of_an_input_with_a_place_is_no_kernel():
    """What takes the places out may miss a way that a later checkout has."""

    class SpyreKernel:
        def codegen_kernel(self):
            return "[]"

    def given(offset):
        layout = types.SimpleNamespace(offset=offset)
        data = types.SimpleNamespace(data=types.SimpleNamespace(layout=layout))
        return types.SimpleNamespace(data=data)

    graph = types.SimpleNamespace(graph_inputs={"arg0_1": given(0), "s0": 5})
    module = types.SimpleNamespace(SpyreKernel=SpyreKernel, V=types.SimpleNamespace(graph=graph))
    offsets.amend(module)
    assert SpyreKernel().codegen_kernel() == "[]"
    module.V.graph = types.SimpleNamespace()  # outside of a compilation
    assert SpyreKernel().codegen_kernel() == "[]"
    module.V.graph = graph
    graph.graph_inputs["arg1_1"] = given(64)
    with pytest.raises(RuntimeError, match="graph input arg1_1 is compiled for a place"):
        SpyreKernel().codegen_kernel()
