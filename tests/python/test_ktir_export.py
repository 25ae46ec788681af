# SPDX-License-Identifier: Apache-2.0
"""OpSpecs as KTIR: the kernel of the specs and the module give the same bytes."""

import json

import pytest
import torch
from torch_spyre import Unsupported, ktir, report
from torch_spyre.compile.planned import op_spec


def specs_of(function, *tensors):
    """The OpSpecs of a function, and its result on the card."""
    torch._dynamo.reset()
    compiled = torch.compile(function)
    result = compiled(*(t.to("spyre") for t in tensors)).cpu()
    program = report.last_report().program()
    specs = op_spec.from_json(json.loads(program.executable.text(0, "opspec"))["specs"])
    return specs, result


def device_index(arg):
    """For each element of a device array the element of the host tensor, and whether it has one."""
    index = torch.zeros(arg.device_size, dtype=torch.long)
    holds = torch.ones(arg.device_size, dtype=torch.bool)
    for dim, (size, step) in enumerate(zip(arg.device_size, arg.stride_map, strict=True)):
        shape = [1] * len(arg.device_size)
        shape[dim] = size
        along = torch.arange(size).view(shape)
        index = index + along * max(step, 0)
        holds = holds & ((along == 0) | torch.tensor(step >= 0))
    return index, holds


def run_exported(specs, tensors, *, interpret):
    """The arrays of the module's arguments behind a run, and the argument that is the result."""
    arguments = {a.arg_index: a for spec in specs for a in spec.args if a.arg_index >= 0}
    arrays = {}
    for number, arg in arguments.items():
        index, holds = device_index(arg)
        array = torch.zeros(arg.device_size, dtype=torch.float16)
        if number < len(tensors):
            array = torch.where(holds, tensors[number].reshape(-1)[index], array)
        arrays[f"a{number}"] = array.contiguous()
    ktir.loads(ktir.from_specs(specs)).run(interpret=interpret, **arrays)
    return arrays[f"a{max(arguments)}"], arguments[max(arguments)]


X, Y = torch.randn(64, 256).half(), torch.randn(256, 128).half()
BATCH, ROW = torch.randn(2, 64, 128).half(), torch.randn(256).half()


@pytest.mark.parametrize(
    ("function", "tensors"),
    [
        (lambda x: x.exp() + x, (X,)),
        (lambda x, row: x * row, (X, ROW)),
        (lambda x: x.sum(-1), (X,)),
        (lambda x: x.sum(0), (X,)),
        (lambda x: x.t().contiguous(), (X,)),
        (lambda x, y: x @ y, (X, Y)),
        (lambda q: q @ q.transpose(1, 2), (BATCH,)),
        (lambda x, y: torch.softmax(x @ y, -1), (X, Y)),
    ],
    ids=["pointwise", "row", "sum", "sum0", "transpose", "product", "batch", "softmax"],
)
def test_both_ways_give_the_same_bytes(function, tensors):
    specs, result = specs_of(function, *tensors)
    found, arg = run_exported(specs, tensors, interpret=False)
    index, holds = device_index(arg)
    wanted = result.contiguous().reshape(-1)[index]
    assert torch.equal(found[holds].view(torch.int16), wanted[holds].view(torch.int16))
    by_definition, _ = run_exported(specs, tensors, interpret=True)
    assert torch.equal(found, by_definition)


def test_compute_tiles_are_the_cores_that_were_chosen():
    specs, _ = specs_of(lambda x, y: x @ y, X, Y)
    (product,) = specs
    cores = 1
    for _extent, slices in product.iteration_space.values():
        cores *= slices
    assert cores > 1
    (function,) = ktir.loads(ktir.from_specs(specs, "product")).functions
    assert (function.name, function.grid) == ("product", (cores,))
    assert [p.name for p in function.parameters] == ["a0", "a1", "a2"]


def test_what_has_no_form_is_named():
    specs, _ = specs_of(lambda x: torch.sigmoid(x), X)
    with pytest.raises(Unsupported, match="op 0 sigmoid: KTIR: there is no operation for it"):
        ktir.from_specs(specs)
    specs, _ = specs_of(lambda x: x.exp(), X.float())
    with pytest.raises(Unsupported, match="op 0 exp: KTIR: sticks of 64"):
        ktir.from_specs(specs)
    with pytest.raises(Unsupported, match="a list of OpSpecs is wanted"):
        ktir.from_specs([])
