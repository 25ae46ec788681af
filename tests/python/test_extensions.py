# SPDX-License-Identifier: Apache-2.0
"""What users add to the compiler: decompositions, lowerings, fallbacks, passes over graphs."""

import importlib
import subprocess
import sys
import traceback

import pytest
import torch
import torch_spyre
from torch_spyre import passes, registry
from torch_spyre.compile import decomposition_table

_LIBRARY = torch.library.Library("spyretest", "FRAGMENT")
_LIBRARY.define("swiglu(Tensor x, Tensor y) -> Tensor")
_LIBRARY.define("mish2(Tensor x) -> Tensor")


@torch.library.register_fake("spyretest::swiglu", lib=_LIBRARY)
def _swiglu_fake(x, y):
    return torch.empty_like(x)


@torch.library.register_fake("spyretest::mish2", lib=_LIBRARY)
def _mish2_fake(x):
    return torch.empty_like(x)


SWIGLU = torch.ops.spyretest.swiglu.default
MISH2 = torch.ops.spyretest.mish2.default


@registry.register_spyre_decomposition(SWIGLU)
def swiglu(x, y):
    return torch.nn.functional.silu(x) * y


@registry.register_spyre_lowering([MISH2])
def mish2(x):
    return torch.nn.functional.mish(x) * 2


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    tables = (registry.fallback_ops, *(c.passes for c in PASS_CLASSES + LOOP_PASS_CLASSES))
    before = [t.copy() for t in tables]
    yield
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old) if isinstance(table, dict) else table.extend(old)
    torch._dynamo.reset()


PASS_CLASSES = (passes.CustomPreGradPasses, passes.CustomPrePasses, passes.CustomPostPasses)
LOOP_PASS_CLASSES = (passes.CustomPreLayoutPasses, passes.CustomPostFusionPasses)


def operands():
    torch.manual_seed(0)
    return torch.randn(8, 64), torch.randn(8, 64)


def on_card(*tensors):
    return [x.half().to("spyre") for x in tensors]


def targets_seen_by(stage, function, *tensors):
    """Compiles; the operators of the graph that a pass of that stage sees."""
    seen = []
    stage.passes.append(lambda graph: seen.extend(node.target for node in graph.nodes))
    result = torch.compile(function, dynamic=False)(*on_card(*tensors))
    return seen, result.cpu().float()


def test_a_decomposition_is_gone_before_the_passes():
    x, y = operands()
    seen, result = targets_seen_by(passes.CustomPrePasses, SWIGLU, x, y)
    assert SWIGLU not in seen and seen
    torch.testing.assert_close(result, swiglu(x, y), rtol=1e-2, atol=1e-2)
    assert torch_spyre.last_report().nodes_on_host == 0


def test_a_lowering_is_there_for_the_first_passes_only():
    x, _ = operands()
    seen, result = targets_seen_by(passes.CustomPrePasses, MISH2, x)
    assert MISH2 in seen
    torch.testing.assert_close(result, mish2(x), rtol=1e-2, atol=1e-2)
    assert torch_spyre.last_report().nodes_on_host == 0
    torch._dynamo.reset()
    seen, _ = targets_seen_by(passes.CustomPostPasses, MISH2, x)
    assert MISH2 not in seen and seen


def test_both_work_outside_compile():
    x, y = operands()
    a, b = on_card(x, y)
    torch.testing.assert_close(SWIGLU(a, b).cpu().float(), swiglu(x, y), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(MISH2(a).cpu().float(), mish2(x), rtol=1e-2, atol=1e-2)


def test_decompositions_of_the_card_are_not_those_of_the_host():
    assert SWIGLU in decomposition_table.table()
    assert SWIGLU not in torch._decomp.decomposition_table
    with pytest.raises(NotImplementedError):
        SWIGLU(*operands())


def test_a_fallback_runs_on_the_host():
    exp = torch.ops.aten.exp.default
    x, _ = operands()
    calls = []
    registry.register_fallback(exp)(lambda value: calls.append(1) or value.exp())
    result = torch.compile(lambda v: torch.exp(v) + 1, dynamic=False)(*on_card(x))
    torch.testing.assert_close(result.cpu().float(), x.exp() + 1, rtol=1e-2, atol=1e-2)
    report = torch_spyre.last_report()
    assert report.nodes_on_host == 1 and report.nodes_on_card == 1
    torch.exp(*on_card(x))
    assert len(calls) == 2
    registry.register_fallback([torch.ops.aten.exp])(None)  # PyTorch's own kernel
    torch.testing.assert_close(torch.exp(*on_card(x)).cpu().float(), x.exp(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("stage", PASS_CLASSES)
def test_a_pass_changes_the_graph(stage):
    other = {torch.add: torch.sub, torch.ops.aten.add.Tensor: torch.ops.aten.sub.Tensor}

    def subtract(graph):
        for node in graph.nodes:
            node.target = other.get(node.target, node.target)

    stage.passes.append(subtract)
    x, y = operands()
    result = torch.compile(lambda a, b: torch.add(a, b), dynamic=False)(*on_card(x, y))
    torch.testing.assert_close(result.cpu().float(), x - y, rtol=1e-2, atol=1e-2)


def test_passes_leave_graphs_of_the_host_alone():
    seen = []
    for stage in PASS_CLASSES:
        stage.passes.append(seen.append)
    torch.compile(lambda a, b: a + b, dynamic=False, backend="spyre")(*operands())
    assert seen == []


def test_default_passes_are_names_of_what_there_is():
    """Torch-spyre's defaults are a view: nothing of them is in the lists that users append to."""
    torch.compile(lambda a, b: a + b, dynamic=False)(*on_card(*operands()))
    ran = set(torch_spyre.last_report().stage_us)
    points = [kind for kind in vars(passes).values() if hasattr(kind, "default_passes")]
    found = {kind.__name__: kind.default_passes() for kind in points}
    assert found["CustomPrePasses"] == {
        "collect_spyre_hints": "torch_spyre.compile.hints.hint_scopes"
    }
    assert list(found["CustomPostFusionPasses"]) == ["memory_planning", "spyre_fuse_nodes"]
    assert len(found["CustomPreSchedulingPasses"]) == 19 and found["CustomPreGradPasses"] == {}
    for names in found.values():
        for place in set(names.values()) - {"graph"}:
            assert place in ran or importlib.import_module(place)
    assert not any(kind.passes for kind in points if hasattr(kind, "passes"))


def test_the_identity_of_a_list_is_that_of_its_sources():
    empty = passes.CustomPrePasses().uuid()
    passes.CustomPrePasses.passes.append(swiglu)
    assert passes.CustomPrePasses().uuid() != empty


def test_what_is_no_pass_is_refused():
    passes.CustomPrePasses.passes.append(3)
    with pytest.raises(Exception, match="CustomPrePasses.passes: expected a function, got 3"):
        torch.compile(torch.abs)(*on_card(operands()[0]))


def _raises(_graph):
    raise ValueError("no such node")


def _uses_what_is_to_come(graph):
    first = graph.find_nodes(op="call_function", target=torch.ops.aten.abs.default)[0]
    first.args = (graph.call_function(torch.ops.aten.neg.default, (first,)),)


@pytest.mark.parametrize("points", PASS_CLASSES + LOOP_PASS_CLASSES)
def test_a_pass_that_raises_is_named(points):
    points.passes.append(_raises)
    rule = f"PassError: the pass _raises of {points.__name__} raised ValueError: no such node"
    with pytest.raises(Exception) as failed:
        torch.compile(torch.abs)(*on_card(operands()[0]))
    assert rule in "".join(traceback.format_exception_only(failed.value))


def test_a_pass_that_leaves_no_graph_is_named():
    passes.CustomPostPasses.passes += [lambda graph: None, _uses_what_is_to_come]
    rule = "the pass _uses_what_is_to_come of CustomPostPasses raised RuntimeError: Argument 'neg"
    with pytest.raises(Exception, match=rule):
        torch.compile(torch.abs)(*on_card(operands()[0]))


@pytest.mark.parametrize("wrong", ["aten.add", 3, None, [torch.add], []])
def test_registering_something_else_is_refused(wrong):
    with pytest.raises(TypeError, match="expected an operator of torch.ops"):
        registry.register_fallback(wrong)(None)
    with pytest.raises(TypeError, match="expected an operator of torch.ops"):
        registry.register_spyre_decomposition(wrong)(swiglu)
    with pytest.raises(TypeError, match="expected a function"):
        registry.register_spyre_lowering(SWIGLU)("swiglu")
    with pytest.raises(TypeError, match="expected a function of CPU tensors or None"):
        registry.register_fallback(SWIGLU)("swiglu")


def test_what_is_registered_is_listed():
    from torch_spyre import registry

    op = torch.ops.aten.erfinv.default
    registry.register_fallback(op)(None)
    try:
        rows = registry.listing()
        assert (str(op), "fallback", "") in rows
        assert ("aten.mm.default", "compiler", "") in rows and rows == sorted(rows)
    finally:
        registry.fallback_ops.pop(op)
    assert (str(op), "fallback", "") not in registry.listing()


# What torch-spyre lowers itself (torch_spyre/_inductor/lowering.py at e1abccf).
LOWERED = """
    aten._scaled_mm.default aten.mm.default aten.bmm.default aten.mean.dim aten.mean.default
    aten.gelu.default aten.silu.default aten.softplus.default aten.clamp.default aten.clone.default
    aten.full.default aten.copy_.default aten.cat.default aten.constant_pad_nd.default
    prims.convert_element_type.default aten.add.Tensor aten.mul.Tensor aten.sub.Tensor
    aten.minimum.default aten.maximum.default spyre.exx2.default spyre.layernormnorm.default
    spyre.layernormscale.default spyre.topkvalue.default spyre.topkindex.default
    spyre.copy_from_d2d.default spyre.overwrite.default spyre.restickify.default
    spyre.constant.default spyre.empty.default spyre.qfp8ch.default spyre.batched_matmul.default
    spyre.gelu.default spyre.softplus.default spyre.clamp.default
""".split()


def test_operators_on_the_command_line():
    def lines(*words):
        command = [sys.executable, "-m", "torch_spyre.operators", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        return [tuple(line.split()) for line in done.stdout.splitlines()]

    rows = lines()
    assert set(LOWERED) <= {row[0] for row in rows}
    assert {"compiler", "composite"} <= {row[1] for row in rows}
    some = lines("exx2", "aten.mm.")
    assert some == [
        ("aten.mm.default", "compiler"),
        ("spyre.exx2.default", "composite", "torch_spyre.compile.customops.norms.exx2"),
    ]
    with pytest.raises(subprocess.CalledProcessError) as failed:
        lines("nonexistent")
    assert "no operator is named with nonexistent" in failed.value.stderr
