# SPDX-License-Identifier: Apache-2.0
"""A compiled program that is launched with other sizes or dtypes than it was compiled for is
refused before anything runs, and leaves the tensors alone."""

import pytest
import torch
from torch_spyre import _C
from torch_spyre.compile import call_compiler

HALF = torch.float16


@pytest.fixture
def addition():
    """An Executable: the sum of two float16 tensors [512, 256]."""
    like = torch.zeros(512, 256, dtype=HALF).to("spyre")
    graph = _C.Graph()
    x, y = graph.add_input("x", like), graph.add_input("y", like)
    result = (HALF, True, [512, 256], [256, 1], 0)
    _node, outputs = graph.add_node("sum", "aten.add.Tensor", [(x,), (y,), 1], [result], None)
    graph.add_output(outputs[0])
    return call_compiler.compile_graph(graph, host_fallback=True)


def ones(*sizes, dtype=HALF):
    return torch.ones(sizes, dtype=dtype).to("spyre")


@pytest.mark.parametrize("way", ["launch", "interpret"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ones(512, 256, dtype=torch.float32), "float32, the program was compiled for"),
        (lambda: ones(512, 256, dtype=torch.bfloat16), "bfloat16, the program was compiled for"),
        (lambda: ones(512, 256, dtype=torch.int64), "int64, the program was compiled for float16"),
        (lambda: ones(512, 256, dtype=torch.bool), "bool, the program was compiled for float16"),
        (lambda: ones(1024, 256), "its storage has other sizes or strides"),
        (lambda: ones(4, 256), "its storage has other sizes or strides"),
        (lambda: ones(256, 512), "its storage has other sizes or strides"),
        (lambda: ones(256, 512).t(), "its storage has other sizes or strides"),
        (lambda: ones(512, 512)[:, :256], "its storage has other sizes or strides"),
        (lambda: torch.ones(512, 256, dtype=HALF), "is not on the card"),
    ],
)  # fmt: skip
def test_executable(addition, way, wrong, message):
    x, y = ones(512, 256), wrong()
    expected = y.cpu().clone()
    for operands, place in (((x, y), 1), ((y, x), 0)):
        with pytest.raises(ValueError, match=f"input {place} of a launch.*{message}"):
            getattr(addition, way)(0, list(operands), 0)
    assert y.cpu().equal(expected)


def test_a_refused_tensor_keeps_its_precision(addition):
    """float32 storages were turned to 16 bits for the launch."""
    y = torch.full((512, 256), 1.0001).to("spyre")
    with pytest.raises(ValueError, match="float32"):
        addition.launch(0, [ones(512, 256), y], 0)
    assert y.cpu().eq(torch.tensor(1.0001)).all()


def test_number_of_inputs_segment_and_card(addition):
    x = ones(512, 256)
    for operands in ([x], [x, x, x]):
        with pytest.raises(
            ValueError, match=f"the segment has 2 inputs, {len(operands)} were given"
        ):
            addition.launch(0, operands, 0)
    with pytest.raises(IndexError, match="segment 1 of 1"):
        addition.launch(1, [x, x], 0)
    with pytest.raises(ValueError, match="card 7 of"):
        addition.launch(0, [x, x], 7)
    with pytest.raises(TypeError, match="expected a tensor"):
        addition.launch(0, [x, None], 0)
    assert addition.launch(0, [x, x], 0)[0].cpu().eq(2).all()
