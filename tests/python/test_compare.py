# SPDX-License-Identifier: Apache-2.0
"""torch_spyre.debug.compare, and with it what compiled graphs make of out= of another dtype."""

import pytest
import torch
from torch_spyre.debug.compare import compare_with_cpu


def test_equal_functions():
    x, y = torch.randn(40, 70).half(), torch.randn(70, 30).half()
    compare_with_cpu(lambda x, y: {"p": x @ y, "s": [x.sum(0), 3]}, x, y)
    compare_with_cpu(lambda pair: pair[0] + pair[1], [x, x])


def test_the_arguments_stay():
    x = torch.ones(3, 64).half()
    compare_with_cpu(lambda x: x.mul_(2), x)
    assert torch.equal(x, torch.ones(3, 64).half())


@pytest.mark.parametrize("off", [{"run_eager": False}, {"run_compile": False}])
def test_what_differs_is_named(off):
    x = torch.ones(64).half()
    name = "compiled" if "run_eager" in off else "eager"
    with pytest.raises(AssertionError, match=f"{name}, value 0: .*not close"):
        compare_with_cpu(lambda x: x + (x.device.type == "spyre"), x, **off)


def test_what_is_written_in_place_counts():
    def write(x):
        if x.device.type == "spyre":
            x.add_(1)

    with pytest.raises(AssertionError, match="eager, value 1: "):
        compare_with_cpu(write, torch.ones(64).half())


def test_nothing_is_run_that_is_switched_off():
    calls = []
    compare_with_cpu(calls.append, 1, run_eager=False, run_compile=False)
    assert len(calls) == 1


@pytest.mark.host("aten.cat", "aten.sum")  # eager, out= of another dtype
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, out: torch.add(x, x, out=out),
        lambda x, out: torch.exp(x, out=out),
        lambda x, out: torch.cat([x[:3], x[3:]], out=out),
        lambda x, out: torch.gt(x, 1, out=out),
        lambda x, out: torch.sum(x[None], 0, out=out),
    ],
    ids=["add", "exp", "cat", "gt", "sum"],
)
def test_out_of_another_dtype(function, dtype):
    compare_with_cpu(
        function, torch.arange(6.0).half() / 2, torch.zeros(6, dtype=dtype), atol=0.01, rtol=0.01
    )
