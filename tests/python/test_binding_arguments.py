# SPDX-License-Identifier: Apache-2.0
"""Every function of the binding, called with anything: an exception that says something, never a
crash, an error left behind, or an interpreter that goes on with one."""

import os

import numpy
import pytest
import torch
from torch_spyre import _C

# Functions whose purpose is to change the process for good.
LASTING = {
    "start_runtime", "free_runtime", "_set_enums", "is_in_bad_fork", "init", "_lazy_init",
    "_set_memory_limit", "set_per_process_memory_fraction",
}  # fmt: skip

SWEEP = """
import faulthandler, random, sys, warnings
faulthandler.enable()
warnings.simplefilter("ignore")
import torch, torch_spyre

C = torch_spyre._C
chance = random.Random(SEED)
tensor = torch.ones(3, 64, dtype=torch.float16, device="spyre")
layout = torch_spyre.get_spyre_tensor_layout(tensor)
text = "input %x: f16[3, 64]\\n%y = aten.add.Tensor(%x, %x, 1) -> f16[3, 64]\\nreturn %y"
executable = C.compile(C.Graph(text), {}, None, True)
values = [
    None, 0, 1, -1, 5, True, 2**31, 2**32 + 1, 2**63, -(2**63) - 1, 1.5, float("nan"),
    "", "x", "a\\0b", "\\udc80", "aten.add.Tensor", b"ab", "spyre", "spyre:99",
    [], [1], [-1], [2**40] * 3, [1] * 100, (), (3, 64), (64, 1), [[1]], ["M"], [None], [tensor],
    {}, {"a": 1}, {1: 2}, range(5), tensor, torch.ones(2), torch.float16, torch.int64,
    torch.device("spyre", 0), torch.device("cpu"), layout, C.Graph(), type, object(), print,
    executable, [tensor, tensor],
]

def sweep(label, function):
    for _ in range(40):
        arguments = [chance.choice(values) for _ in range(chance.choice((0, 1, 2, 3, 4, 5, 8)))]
        try:
            function(*arguments)
        except SystemError as error:
            sys.exit(f"{label}{arguments!r:.200}: {error}")
        except Exception as error:
            if not str(error):
                sys.exit(f"{label}{arguments!r:.200}: {type(error).__name__} without a message")

owners = [C, C.Graph, C.Executable, C.JobPlan, C.SpyreTensorLayout, C.Graph(), executable, layout,
          torch.spyre]
for owner in owners:
    for name in dir(owner):
        function = getattr(owner, name)
        if callable(function) and not name.startswith("__") and name not in LASTING:
            print(name, flush=True)
            sweep(name, function)
fresh = torch.ones(3, 64, dtype=torch.float16, device="spyre")     # run() may have written `tensor`
assert torch.equal((fresh + fresh).cpu(), torch.full((3, 64), 2.0, dtype=torch.float16))
print("swept")
"""


@pytest.mark.parametrize("seed", range(1, 13))
def test_any_arguments_give_an_exception_or_a_result(torch_forks, seed):
    program = f"SEED, LASTING = {seed}, {LASTING}\n{SWEEP}"
    done = torch_forks.run(program, dict(os.environ))
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-2000:]
    assert done.stdout.endswith("swept\n")


@pytest.mark.parametrize("number", [-1, 2**32, 2**32 + 1, 2**70])
def test_numbers_beyond_32_bits_are_not_cut(number):
    import torch_spyre

    graph = torch_spyre._C.Graph()
    with pytest.raises(ValueError, match="expected 0 to 4294967295"):
        graph.add_output(number)


def test_a_program_of_a_graph_is_no_kernel():
    """run() binds tensors by the numbers of a kernel's arguments; values have other numbers."""
    graph = _C.Graph("""input %x: f16[4, 64]
input %y: f16[4, 64]
%a = aten.add.Tensor(%x, %y, 1) -> f16[4, 64]
%b = aten.mul.Tensor(%a, %y) -> f16[4, 64]
%v = aten.view.default(%x, [64, 4]) -> f16[64, 4]
return %b, %v
""")
    executable = _C.compile(graph, {}, None, True)
    x = torch.ones(4, 64, dtype=torch.float16, device="spyre")
    with pytest.raises(ValueError, match="not a kernel of compile_op_specs"):
        executable.run([x] * 4)


def test_segments_go_by_any_integer():
    graph = _C.Graph("input %x: f16[4, 64]\n%y = aten.neg.default(%x) -> f16[4, 64]\nreturn %y")
    executable = _C.compile(graph, {}, None, True)
    assert executable.counters(numpy.int64(0)) == executable.counters(0)
    assert executable.stages(numpy.int64(0)) == executable.stages(0)
    with pytest.raises(IndexError, match="segment 1 of 1"):
        executable.counters(1)
