# SPDX-License-Identifier: Apache-2.0
"""Kernels as expressions: one store an OpSpec."""

import pytest
import sympy
import torch
from torch_spyre.compile.planned.op_spec import OpSpec, UnimplementedOp
from torch_spyre.compile.planned.spyre_kernel import (
    Constant,
    PointwiseOp,
    ReductionOp,
    SpyreKernel,
    TensorAccess,
    kernels_of,
)


@pytest.fixture
def kernels(compile_observed):
    """kernels(function, tensors) -> its kernels, results checked against the CPU."""

    def compile_and_read(function, *tensors):
        result, made = compile_observed(function, *tensors)
        torch.testing.assert_close(result.cpu(), function(*tensors), rtol=1e-2, atol=1e-2)
        return [kernel for executable in made for kernel in kernels_of(executable)]

    return compile_and_read


def values(kernel):
    return [store.value for store in kernel.body]


def numbers(*shape):
    return torch.randint(-8, 9, shape).half()


def test_a_pointwise_op(kernels):
    (kernel,) = kernels(lambda x, y: x + y, numbers(4, 128), numbers(4, 128))
    (store,) = kernel.body
    assert type(store.value) is PointwiseOp and store.value.op == "add"
    left, right = store.value.arguments
    assert isinstance(left, TensorAccess) and left.index == right.index == store.target.index
    assert {left.name, right.name}.isdisjoint({store.target.name})
    assert isinstance(store.spec, OpSpec) and store.spec.op == "add"
    assert str(store) == f"{store.target} = add({left}, {right})"


def test_a_constant(kernels):
    (kernel,) = kernels(lambda x: x * 1.5, numbers(4, 64))
    constants = [a for v in values(kernel) for a in v.arguments if isinstance(a, Constant)]
    assert [c.value for c in constants] == [1.5]


def test_a_store_an_operation(kernels):
    (kernel,) = kernels(lambda x: (x + 1) * 2, numbers(4, 128))
    assert [v.op for v in values(kernel)] == ["add", "mul"]
    constants = [a for v in values(kernel) for a in v.arguments if isinstance(a, Constant)]
    assert [c.value for c in constants] == [1.0, 2.0]
    (kernel,) = kernels(lambda x: x.clamp(-2, 3), numbers(4, 128))
    ((_source, *parameters),) = (v.arguments for v in values(kernel))
    assert [(p.name, p.value) for p in parameters] == [("clipMin", -2.0), ("clipMax", 3.0)]


def test_a_reduction_names_its_loops(kernels):
    (kernel,) = kernels(lambda x: x.sum(0), numbers(4, 64))
    (reduction,) = [v for v in values(kernel) if isinstance(v, ReductionOp)]
    assert reduction.op == "sum" and len(reduction.reduced) == 1
    assert isinstance(reduction.reduced[0], sympy.Symbol)
    assert str(reduction).endswith(f" over {reduction.reduced[0]}")


def test_plain_stores(kernels):
    x, y = numbers(64, 128), numbers(128, 64)
    (kernel,) = kernels(lambda x, y: x.t().contiguous() + y, x, y)
    (restickified,) = [s for s in kernel.body if s.value.op == "ReStickifyOpHBM"]
    (source,) = restickified.value.arguments
    assert source.index[-1] != restickified.target.index[-1]  # another loop runs along the stick
    # What is returned contiguous is laid out as a tensor of its sizes is by default.
    (kernel,) = kernels(lambda x: x.t().contiguous(), x)
    assert [v.op for v in values(kernel)] == ["ReStickifyOpHBM"]
    (kernel,) = kernels(lambda x: x.t().clone(), x)  # strides as they are
    assert [v.op for v in values(kernel)] == ["identity"]
    (kernel,) = kernels(lambda x: x[1:, :64].clone(), numbers(5, 128))
    assert [v.op for v in values(kernel)] == ["identity"]


def test_unimplemented_operations():
    kernel = SpyreKernel.of_specs("k", [UnimplementedOp("aten.frobnicate")])
    assert str(kernel) == "k\n    unimplemented aten.frobnicate"
