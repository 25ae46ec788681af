# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's names around Inductor: registrations, the context, overwrite, missing kernels."""

import pytest
import torch
import torch_spyre
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch_spyre import passes
from torch_spyre._inductor.patches import enable_spyre_context


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def ones(*sizes):
    return torch.ones(sizes, dtype=torch.half).to("spyre")


def test_classes_of_the_device():
    from torch._inductor.codegen import common
    from torch_spyre._pytorch.inductor import inductor_device

    common.init_backend_registration()
    assert common.get_scheduling_for_device("spyre") is inductor_device.SuperDSCScheduling
    assert (
        common.get_wrapper_codegen_for_device("spyre") is inductor_device.SpyrePythonWrapperCodegen
    )
    assert isinstance(
        common.get_device_op_overrides("spyre"), inductor_device.SpyreDeviceOpOverrides
    )
    assert isinstance(
        common.get_custom_backend_pass_for_device("spyre"), inductor_device.WholeGraphPass
    )


@pytest.mark.parametrize("backend", ["spyre", "inductor"])
def test_both_names_reach_the_card(backend):
    before = len(torch_spyre.compile_reports())
    assert torch.compile(lambda x: x + 2, backend=backend)(ones(64)).cpu()[0] == 3
    assert len(torch_spyre.compile_reports()) == before + 1


def test_a_function_of_the_cpu_stays_with_inductor():
    before = len(torch_spyre.compile_reports())
    compiled = torch.compile(lambda x: x + 2)
    with enable_spyre_context([ones(64)]):
        assert compiled(torch.ones(3)).tolist() == [3, 3, 3]
    assert len(torch_spyre.compile_reports()) == before


@pytest.mark.host("aten.expm1")
def test_decompositions_of_a_context_end_with_it():
    def twice(x):
        return x + x

    table = {torch.ops.aten.expm1.default: twice}
    with enable_spyre_context((), decomps=table) as known:
        assert known[torch.ops.aten.expm1.default] is twice and len(known) > 100
        assert torch.compile(torch.expm1)(ones(64)).cpu()[0] == 2
    torch._dynamo.reset()
    assert torch.compile(torch.expm1)(ones(64)).cpu()[0] != 2


def test_old_names_of_the_lists_of_passes():
    assert passes.CustomPrePass is passes.CustomPrePasses
    assert passes.CustomPostPass is passes.CustomPostPasses
    assert passes.CustomSchedulerPass is passes.CustomPreSchedulingPasses
    assert issubclass(passes.CustomPrePass, CustomGraphPass)


def test_uuid_changes_with_the_passes():
    lists = [passes.CustomPreGradPasses, passes.CustomPrePasses, passes.CustomPostPasses,
             passes.CustomPreFusionPasses, passes.CustomPostFusionPasses,
             passes.CustomPreSchedulingPasses]  # fmt: skip
    for kind in lists:
        before = kind().uuid()
        assert before == kind().uuid()
        kind.passes.append(test_uuid_changes_with_the_passes)
        try:
            assert kind().uuid() != before
        finally:
            kind.passes.clear()


@pytest.mark.parametrize("compiled", [False, True])
def test_overwrite_writes_a_part(compiled):
    def fill(keys, cache):
        torch.ops.spyre.overwrite(input=keys * 2, output=cache, dims=[1, 2], offsets=[3, 64])
        return cache.sum()

    cache = torch.zeros(2, 8, 128, dtype=torch.half)
    expected = cache.clone()
    expected[:, 3:5, 64:] = 2
    on_card = cache.to("spyre")
    total = (torch.compile(fill) if compiled else fill)(ones(2, 2, 64), on_card)
    assert torch.equal(on_card.cpu(), expected)
    assert total.item() == expected.sum()


def test_overwrite_refuses_other_counts():
    with pytest.raises(ValueError, match="expected as many offsets as dims"):
        torch.ops.spyre.overwrite(ones(2), ones(4), [0], [1, 2])


def test_an_update_of_an_input_reaches_the_caller():
    def step(x, y):
        x.mul_(2)
        y.copy_(x)
        return x + y

    x, y = ones(4, 64), ones(4, 64)
    assert torch.compile(step)(x, y).cpu()[0, 0] == 4
    assert x.cpu()[0, 0] == y.cpu()[0, 0] == 2


@pytest.mark.host("nokernel.mystery")
def test_an_operator_without_a_kernel_fails_when_it_runs():
    library = torch.library.Library("nokernel", "FRAGMENT")
    library.define("mystery(Tensor x) -> Tensor")
    library.impl("mystery", lambda x: torch.empty_like(x), "Meta")

    def maybe(x, go):
        return torch.ops.nokernel.mystery(x) if go else x + 1

    compiled = torch.compile(maybe)
    assert compiled(ones(64), False).cpu()[0] == 2
    with pytest.raises(RuntimeError, match="mystery"):
        compiled(ones(64), True).cpu()
