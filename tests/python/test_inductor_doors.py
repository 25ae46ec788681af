# SPDX-License-Identifier: Apache-2.0
"""The ways into Inductor beside torch.compile(f), with graphs of the device."""

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre
from torch._dynamo.testing import InductorAndRecordGraphs
from torch._inductor.compile_fx import compile_fx
from torch.fx.experimental.proxy_tensor import make_fx


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def halves(*shape):
    return (torch.randint(-16, 17, shape) / 16).half()


class Block(torch.nn.Module):
    """A layer of a transformer, whose parts Inductor decomposes."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
        self.qkv = torch.nn.Linear(64, 192)
        self.up = torch.nn.Linear(64, 128)
        self.down = torch.nn.Linear(128, 64)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 32)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.down(F.silu(self.up(x + y))) + F.softmax(x, -1)


def blocks():
    torch.manual_seed(0)
    reference = Block().half().float()
    return reference, copy.deepcopy(reference).half().to("spyre")


def test_compile_fx_gives_the_numbers_of_the_cpu():
    reference, block = blocks()
    x = halves(2, 9, 64)
    before = torch_spyre.compile_reports()
    with torch.no_grad():
        got = torch.compile(block, backend=compile_fx)(x.to("spyre"))
        torch.testing.assert_close(got.cpu().float(), reference(x.float()), atol=2e-2, rtol=2e-2)
    report = torch_spyre.last_report()
    fresh = [r for r in torch_spyre.compile_reports() if not any(r is old for old in before)]
    assert len(fresh) == 1 and fresh[0] is report
    assert report.host_ops == [], report.text


@pytest.mark.host("aten.bmm", "aten.eq", "prims.fma")
def test_compile_fx_trains():
    reference, block = blocks()
    x = halves(2, 9, 64)
    torch.compile(block, backend=compile_fx)(x.to("spyre")).sum().backward()
    reference(x.float()).sum().backward()
    for got, expected in zip(block.parameters(), reference.parameters(), strict=True):
        scale = expected.grad.abs().max().item()
        torch.testing.assert_close(
            got.grad.cpu().float(), expected.grad, atol=2e-2 * scale + 1e-3, rtol=0
        )


def test_operators_that_inductor_must_know():
    with torch._inductor.config.patch(implicit_fallbacks=False):
        x = halves(4, 64)
        found = torch.compile(lambda x: x * 2 + 1, backend=compile_fx)(x.to("spyre"))
    assert torch.equal(found.cpu(), x * 2 + 1)


def test_graphs_are_recorded():
    recorder = InductorAndRecordGraphs()
    x = halves(4, 64)
    got = torch.compile(lambda x: (x + 1).relu(), backend=recorder)(x.to("spyre"))
    assert torch.equal(got.cpu(), (x + 1).relu())
    assert len(recorder.graphs) == len(recorder.inductor_graphs) == 1


def test_inductor_compiles_and_standalone_compile():
    def function(x, y):
        return (x @ y).relu(), x.sum(-1)

    x, y = halves(4, 64), halves(64, 64)
    on_card = x.to("spyre"), y.to("spyre")
    graph = make_fx(function, tracing_mode="fake")(*on_card)
    expected = function(x.float(), y.float())
    for compiled in (
        torch._inductor.compile(copy.deepcopy(graph), on_card),
        torch._inductor.standalone_compile(
            copy.deepcopy(graph), on_card, dynamic_shapes="from_example_inputs"
        ),
    ):
        for got, wanted in zip(compiled(*on_card), expected, strict=True):
            torch.testing.assert_close(got.cpu().float(), wanted, atol=3e-2, rtol=1e-2)


def test_sizes_that_change():
    compiled = torch.compile(
        lambda x: (x * 2, x.shape[0] + 1, x.view(-1)), backend=compile_fx, dynamic=True
    )
    for rows in (3, 5, 9):
        x = halves(rows, 64)
        doubled, number, flat = compiled(x.to("spyre"))
        assert torch.equal(doubled.cpu(), x * 2) and torch.equal(flat.cpu(), x.view(-1))
        assert number == rows + 1


@pytest.mark.host("aten.slice_scatter")
def test_changed_inputs_and_views():
    def step(x, cache):
        cache[:, 1:3] = x
        x.mul_(2)
        return cache.sum(), x.t(), x

    x, cache = halves(4, 2), halves(4, 8)
    on_card = x.to("spyre"), cache.to("spyre")
    results = torch.compile(step, backend=compile_fx)(*on_card)
    expected = step(x, cache)
    for got, wanted in zip((*results, *on_card), (*expected, x, cache), strict=True):
        torch.testing.assert_close(got.cpu(), wanted)


def test_a_graph_that_only_changes_an_input():
    def step(x):
        x.add_(1)

    x = halves(4, 64)
    on_card = x.to("spyre")
    torch.compile(step, backend=compile_fx)(on_card)
    assert torch.equal(on_card.cpu(), x + 1)


@pytest.mark.host("aten._softmax_backward_data", "aten.bmm")
def test_aot_eager_with_attention():
    def attend(q):
        return F.scaled_dot_product_attention(q, q, q)

    q = halves(1, 2, 16, 64)
    on_card = q.to("spyre").requires_grad_()
    reference = q.float().requires_grad_()
    got = torch.compile(attend, backend="aot_eager")(on_card)
    expected = attend(reference)
    got.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(got.cpu().float(), expected, atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(on_card.grad.cpu().float(), reference.grad, atol=2e-2, rtol=2e-2)


def test_aotinductor_refuses_and_says_what_to_use():
    linear = torch.nn.Linear(64, 64).half().to("spyre")
    x = halves(4, 64).to("spyre")
    message = "AOTInductor makes no code for spyre: save the program with torch.export.save"
    with pytest.raises(Exception, match=message):
        torch._inductor.aoti_compile_and_package(torch.export.export(linear, (x,)))
    with pytest.raises(Exception, match=message):
        torch.compile(linear, options={"use_aoti": True})(x)


def test_what_the_refusal_names_works(tmp_path):
    linear = torch.nn.Linear(64, 64).half().to("spyre")
    x = halves(4, 64).to("spyre")
    torch.export.save(torch.export.export(linear, (x,)), tmp_path / "linear.pt2")
    loaded = torch.export.load(tmp_path / "linear.pt2").module()
    torch.testing.assert_close(torch.compile(loaded)(x).cpu(), linear(x).cpu())


def test_exported_casts_are_one_program():
    class Casts(torch.nn.Module):
        def forward(self, x):
            return (x.float() * 2).to(torch.float16)

    x = halves(4, 64).to("spyre")
    exported = torch.export.export(Casts(), (x,))
    assert any("_assert_tensor_metadata" in str(n.target) for n in exported.graph.nodes)
    got = torch.compile(exported.module())(x)
    assert torch.equal(got.cpu(), x.cpu() * 2)
    assert torch_spyre.last_report().segments == 1


def test_the_interface_of_dynamo():
    from torch._dynamo.device_interface import (
        get_interface_for_device,
        get_registered_device_interfaces,
    )

    torch.compile(lambda x: x + 1)  # the first one registers
    interface = get_interface_for_device("spyre")
    assert interface is get_interface_for_device("spyre:0")
    assert interface in [kind for _name, kind in get_registered_device_interfaces()]
    assert interface.is_available() and interface.device_count() == torch.spyre.device_count()
    assert interface.current_device() == 0 and not interface.is_triton_capable()
    assert interface.is_dtype_supported(torch.bfloat16)
    assert not interface.is_dtype_supported(torch.complex64)
    with interface.device(0), interface.stream(torch.spyre.Stream()):
        assert interface.get_raw_stream(0) != 0
    assert interface.get_raw_stream(0) == 0
    interface.synchronize()


def test_importing_torch_does_not_import_dynamo(run_python):
    run_python("import sys, torch; assert 'torch._dynamo' not in sys.modules")
