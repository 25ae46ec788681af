# SPDX-License-Identifier: Apache-2.0
"""What programs ask of torch.spyre and torch.accelerator as they do of torch.cuda."""

import inspect

import pytest
import torch


def test_properties_are_those_of_the_geometry_table():
    found = torch.spyre.get_device_properties()
    assert found == torch.spyre.get_device_properties("spyre:0")
    assert found == torch.spyre.get_device_properties(torch.device("spyre"))
    assert (found.multi_processor_count, found.corelets_per_core) == (32, 2)
    assert found.scratchpad_bytes_per_core == 2 << 20
    assert found.stick_bytes == 128 and found.is_emulated
    assert found.total_memory == torch.spyre.mem_get_info()[1] == (112 << 30) - 128
    assert torch.spyre.get_device_name(0) == found.name == "IBM Spyre (emulated)"
    assert torch.spyre.get_device_capability()["multi_processor_count"] == 32
    with pytest.raises(AttributeError):
        found.name = "other"


@pytest.mark.parametrize(
    "device, error",
    [(7, RuntimeError), (-1, RuntimeError), ("spyre:7", RuntimeError), ("cpu", ValueError)],
)
def test_properties_of_no_card(device, error):
    for ask in (torch.spyre.get_device_properties, torch.spyre.get_device_name,
                torch.spyre.get_device_capability):  # fmt: skip
        with pytest.raises(error, match="device"):
            ask(device)


def test_answers_start_nothing(run_python):
    source = (
        "import torch\n"
        "torch.spyre.get_device_properties(); torch.spyre.is_bf16_supported()\n"
        "print(torch.spyre.is_initialized())\n"
    )
    assert run_python(source).stdout == "False\n"


def test_the_rest_of_what_is_asked():
    spyre = torch.get_device_module("spyre")
    assert spyre is torch.spyre is torch.get_device_module()
    assert spyre.is_bf16_supported() and not spyre.is_bf16_supported(including_emulation=False)
    assert spyre.get_arch_list() == ["spyre"]
    assert spyre.can_device_access_peer(0, 0) is False
    states = spyre.get_rng_state_all()
    drawn = torch.rand(3, device="spyre").cpu()
    spyre.set_rng_state_all(states)
    assert torch.rand(3, device="spyre").cpu().equal(drawn)
    spyre.seed_all()
    spyre.seed()
    assert not torch.rand(3, device="spyre").cpu().equal(drawn)
    torch.spyre.set_rng_state_all(states)


def test_the_accelerator_interface_is_whole():
    accelerator = torch.accelerator
    dtypes = accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float64, torch.complex64, torch.uint64, torch.float8_e5m2} <= dtypes
    assert not {torch.qint8, torch.quint4x2} & dtypes
    accelerator.empty_host_cache()
    accelerator.synchronize()
    accelerator.set_device_index(0)
    with accelerator.device_index(0):
        assert accelerator.current_device_index() == 0
    accelerator.set_stream(accelerator.current_stream())
    free, total = accelerator.get_memory_info()
    assert 0 < free <= total
    assert torch.ones(3).pin_memory().tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="not supported"):
        accelerator.Graph()


def test_streams_and_events_drop_no_argument():
    assert torch.spyre.Stream(priority=-1).priority == -1
    with pytest.raises(TypeError, match="priority: expected an int, got str"):
        torch.spyre.Stream(priority="x")
    with pytest.raises(TypeError):
        torch.spyre.Event(timing=True)
    with pytest.raises(RuntimeError, match="interprocess"):
        torch.spyre.Event(interprocess=True)
    torch.spyre.Event(enable_timing=True, blocking=True).synchronize()


def test_kinds_of_events_and_streams():
    event, other = torch.spyre.Event(enable_timing=True), torch.Event(device="cpu")
    assert isinstance(torch.spyre.Event, type)
    assert isinstance(event, torch.spyre.Event) and isinstance(event, torch.Event)
    assert isinstance(torch.Event(device="spyre"), torch.spyre.Event)
    assert not isinstance(other, torch.spyre.Event) and not isinstance(3, torch.spyre.Event)
    stream = torch.spyre.Stream()
    assert isinstance(stream.record_event(), torch.spyre.Event)
    context = torch.spyre.stream(stream)
    assert isinstance(context, torch.spyre.StreamContext) and context.stream is stream
    before = torch.spyre.current_stream()
    with context:
        assert torch.spyre.current_stream() == stream
    with torch.spyre.StreamContext(None):
        assert torch.spyre.current_stream() == before
    with pytest.raises(TypeError, match="expected a torch.spyre.Stream"):
        torch.spyre.stream(3)


def test_names_that_programs_probe():
    free, total = torch.spyre.mem_get_info()
    kept = torch.ones(1 << 20, device="spyre")
    assert torch.spyre.device_memory_used() >= total - free + kept.nbytes
    assert torch.spyre.is_tf32_supported() is False
    torch.spyre.ipc_collect()


@pytest.mark.parametrize("ask", ["torch.spyre.mem_get_info", "torch.accelerator.get_memory_info"])
def test_memory_is_known_before_the_first_tensor(run_python, ask):
    code = f"""
import torch
total = torch.spyre.get_device_properties().total_memory
assert not torch.spyre.is_initialized()
print({ask}() == (total, total) == (1 << 30, 1 << 30))
"""
    assert run_python(code, SPYRE_MEMORY_LIMIT_GB="1").stdout == "True\n"


def test_names_that_are_missing_are_those_of_torch_spyre():
    with pytest.raises(AttributeError, match="'torch.spyre' has no attribute 'ReplayGraph'"):
        torch.spyre.ReplayGraph  # noqa: B018
    assert {"numerics", "get_diagnostic_report", "Stream"} <= set(dir(torch.spyre))
    assert all(hasattr(torch.spyre, name) for name in dir(torch.spyre))


def test_names_of_cuda_are_there_or_say_what_is():
    for name in torch.cuda.__all__:
        if not hasattr(torch.spyre, name):
            with pytest.raises(AttributeError, match=f"instead of torch.cuda.{name}: "):
                getattr(torch.spyre, name)


def test_functions_take_the_arguments_of_cuda_s():
    checked = 0
    for name in torch.cuda.__all__:
        theirs, ours = getattr(torch.cuda, name), getattr(torch.spyre, name, None)
        if inspect.isfunction(theirs) and inspect.isfunction(ours):
            wanted = [*inspect.signature(theirs).parameters]
            assert [*inspect.signature(ours).parameters][: len(wanted)] == wanted, name
            checked += 1
    assert checked > 30
    with pytest.raises(torch.spyre.OutOfMemoryError):
        torch.empty(1 << 40, device="spyre")
    assert torch.spyre.memory_allocated(device=0) == torch.spyre.memory.memory_allocated("spyre:0")
    assert torch.spyre.random.initial_seed(device="spyre") == torch.spyre.initial_seed()
