# SPDX-License-Identifier: Apache-2.0
"""torch.compile(options=, mode=, fullgraph=, dynamic=) on graphs of the device."""

import pytest
import torch
import torch_spyre
from torch_spyre import config

BACKENDS = pytest.mark.parametrize("backend", ["inductor", "spyre"])


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def product(x, y):
    return torch.relu(x @ y)


def operands():
    return [(torch.randint(-8, 9, (256, 256)) / 8).half().to("spyre") for _ in range(2)]


def time_on_card(backend, options):
    torch.compile(product, backend=backend, options=options)(*operands())
    return torch_spyre.last_report().card_us


@BACKENDS
def test_settings_hold_for_one_function(backend):
    before = config.sencores
    most, few = time_on_card(backend, None), time_on_card(backend, {"sencores": 2})
    assert few > 1.5 * most
    assert config.sencores == before
    assert time_on_card(backend, {"sencores": before}) == most
    with config.patch(sencores=2):
        assert time_on_card(backend, {"lx-planning": True}) == few


def test_settings_hold_for_the_backward_graph():
    x, y = operands()
    x.requires_grad_()
    torch.compile(product, options={"sencores": 2})(x, y).sum().backward()
    slow = torch_spyre.last_report().card_us
    torch._dynamo.reset()
    torch.compile(product)(x, y).sum().backward()
    assert slow > torch_spyre.last_report().card_us


@BACKENDS
def test_options_of_inductor_change_nothing(backend):
    options = {"max_autotune": True, "triton.cudagraphs": True, "epilogue_fusion": False}
    assert time_on_card(backend, options) == time_on_card(backend, None)


@BACKENDS
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sencore": 4}, "Unexpected optimization option sencore, the nearest known are sencores"),
        ({"max_autotun": 1}, "option max_autotun, the nearest known are max_autotune"),
        ({"sencores": "4"}, "Unexpected type of attr sencores, got str should be int"),
        ({"lx_planning": 3}, "Unexpected type of attr lx_planning, got int should be bool"),
        ({"sencores": True}, "Unexpected type of attr sencores, got bool should be int"),
    ],
)
def test_wrong_options(backend, options, message):
    with pytest.raises(Exception, match=message):
        time_on_card(backend, options)


@BACKENDS
def test_values_are_checked(backend):
    with pytest.raises(Exception, match="config.sencores=99: expected a whole number 1..32"):
        time_on_card(backend, {"sencores": 99})


@BACKENDS
def test_modes_are_those_of_pytorch(backend):
    x, y = operands()
    expected = product(x, y).cpu()
    for mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        assert torch.equal(torch.compile(product, backend=backend, mode=mode)(x, y).cpu(), expected)
    with pytest.raises(Exception, match="Unrecognized mode=fastest"):
        torch.compile(product, backend=backend, mode="fastest")(x, y)


def test_other_devices_never_see_the_settings():
    compiled = torch.compile(lambda x: x + 1, options={"sencores": 2, "max_autotune": False})
    assert compiled(torch.ones(3)).tolist() == [2, 2, 2]


def test_other_settings_are_another_compilation():
    wrapper = torch._TorchCompileInductorWrapper
    one, two = (wrapper(None, {"sencores": n}, None) for n in (1, 2))
    assert one != two and one == wrapper(None, {"sencores": 1}, None)
    assert wrapper(None, None, None) == wrapper(None, None, None) != one


def test_fullgraph_is_pytorchs():
    def broken(x):
        torch._dynamo.graph_break()
        return x + 1

    x = operands()[0]
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(broken, fullgraph=True)(x)
    assert torch.equal(torch.compile(broken)(x).cpu(), x.cpu() + 1)


@pytest.mark.parametrize(("dynamic", "graphs"), [(True, 1), (False, 3), (None, 2)])
def test_dynamic_is_pytorchs(dynamic, graphs):
    compiled = torch.compile(lambda x: x + 1, dynamic=dynamic)
    torch._dynamo.utils.counters.clear()
    for rows in (2, 3, 4):
        assert compiled(torch.ones(rows, 64).half().to("spyre")).shape == (rows, 64)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs
