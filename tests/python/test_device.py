# SPDX-License-Identifier: Apache-2.0
"""`torch.spyre`: devices, memory, random numbers, streams, events."""

import copy
import io

import pytest
import torch
import torch_spyre


def test_launches_of_milliseconds_run_on_the_threads_of_pytorch():
    a, b = (torch.rand(shape).half().to("spyre") for shape in ((512, 768), (768, 640)))
    torch.spyre.synchronize()
    product = a @ b
    assert torch.spyre.current_stream().query()  # done by the caller and its team
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)  # fewer than the card has: its own work then
        assert torch.equal((a @ b).cpu(), product.cpu())
    finally:
        torch.set_num_threads(threads)


def test_the_module_has_the_names_of_the_device_api():
    names = """is_available device_count current_device set_device is_initialized
    get_amp_supported_dtype manual_seed manual_seed_all get_rng_state set_rng_state initial_seed
    Stream stream current_stream default_stream synchronize memory _is_in_bad_fork
    _is_compiled""".split()
    assert [name for name in names if not hasattr(torch.spyre, name)] == []
    assert torch.spyre.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]


def test_an_unknown_card_is_refused():
    with pytest.raises(RuntimeError, match="invalid device ordinal 7"):
        torch.empty(1, device="spyre:7")
    torch.empty(1, device="spyre")
    with pytest.raises(RuntimeError, match="invalid device ordinal 7"):
        torch.spyre.set_device(7)


def test_memory_is_counted():
    before = torch.spyre.memory.memory_allocated()
    x = torch.empty(64, 64, dtype=torch.float16, device="spyre")
    assert torch.spyre.memory_allocated() == before + 8192
    del x
    assert torch.spyre.memory_allocated() == before
    assert torch.spyre.max_memory_allocated() >= before + 8192
    torch.spyre.memory.reset_peak_memory_stats()
    assert torch.spyre.max_memory_allocated() == before


def test_the_pointer_is_no_address_of_the_host():
    x = torch.empty(4, device="spyre")
    assert x.data_ptr() >> 60 == 7
    assert x[1:].data_ptr() == x.data_ptr() + 4


def test_random_numbers_repeat_from_a_state():
    torch.spyre.manual_seed(5)
    assert torch.spyre.initial_seed() == 5
    state = torch.spyre.get_rng_state()
    first = torch.rand(9, device="spyre").cpu()
    second = torch.rand(9, device="spyre").cpu()
    torch.spyre.set_rng_state(state)
    assert torch.rand(9, device="spyre").cpu().equal(first)
    assert not first.equal(second)
    torch.manual_seed(5)
    assert torch.rand(9, device="spyre").cpu().equal(first)


def test_a_generator_of_the_device_can_be_given():
    generator = torch.Generator("spyre")
    generator.manual_seed(3)
    first = torch.rand(5, device="spyre", generator=generator).cpu()
    generator.manual_seed(3)
    assert torch.rand(5, device="spyre", generator=generator).cpu().equal(first)


def test_a_copy_of_a_generator_goes_on_by_itself():
    generator = torch.Generator("spyre").manual_seed(3)
    torch.rand(5, device="spyre", generator=generator)
    copy = generator.clone_state()
    assert copy.device == generator.device and copy.initial_seed() == 3
    first = torch.randn(5, device="spyre", generator=generator)
    assert first.cpu().equal(torch.randn(5, device="spyre", generator=copy).cpu())
    torch.randn(5, device="spyre", generator=copy)
    assert not copy.get_state().equal(generator.get_state())


def test_numbers_of_the_cpu_are_not_drawn_from_a_generator_of_the_card():
    generator = torch.Generator("spyre")
    torch.rand(5, device="spyre", generator=generator)
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device .* but found 'spyre:0'"):
        torch.randn(5, generator=generator)


def test_printing_shows_values_and_device():
    x = torch.tensor([1, 2], dtype=torch.float16, device="spyre")
    assert repr(x) == "tensor([1., 2.], dtype=torch.float16, device='spyre:0')"
    assert repr(x.float().cpu()) == "tensor([1., 2.])"
    assert repr(x.device) == "device(type='spyre', index=0)"


def test_copies_and_files_keep_values_and_device():
    x = torch.randn(5, 7).to("spyre")
    y = copy.deepcopy(x)
    assert y.data_ptr() != x.data_ptr() and y.cpu().equal(x.cpu())
    file = io.BytesIO()
    torch.save({"x": x, "t": x.t()}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["x"].device.type == "spyre" and loaded["x"].cpu().equal(x.cpu())
    assert loaded["t"].cpu().equal(x.cpu().t())
    file.seek(0)
    assert torch.load(file, map_location="cpu")["x"].equal(x.cpu())


def test_resize_keeps_what_fits():
    x = torch.arange(12.0).to("spyre")
    x.resize_(2, 3)
    assert x.cpu().equal(torch.arange(6.0).view(2, 3))
    x.resize_(20)
    assert x.cpu()[:6].equal(torch.arange(6.0))


def test_a_stream_is_of_the_pool_of_its_priority():
    low, high = torch.spyre.Stream(), torch.spyre.Stream(priority=-1)
    assert 1 <= low.id <= 32 and low.priority == 0
    assert 33 <= high.id <= 64 and high.priority == -1
    assert low.device == torch.Stream("spyre").device == torch.device("spyre", 0)
    assert {torch.spyre.Stream().id for _ in range(32)} == set(range(1, 33))


def test_the_current_stream_is_that_of_the_context():
    assert torch.spyre.current_stream() == torch.spyre.default_stream()
    s = torch.spyre.Stream()
    with torch.spyre.stream(s) as inside:
        assert inside is s and torch.spyre.current_stream() == s
        x = torch.ones(3).to("spyre") + 1
    assert torch.spyre.current_stream().id == 0
    s.synchronize()
    assert s.query() and x.cpu().tolist() == [2, 2, 2]
    assert len({s, torch.spyre.Stream(stream_id=s.id)}) == 1


def test_streams_of_pytorch_are_the_same_streams():
    s = torch.Stream("spyre")
    with s:
        assert torch.spyre.current_stream().id == s.stream_id
    assert torch.spyre.current_stream().id == 0


def test_events_tell_order_and_time():
    begin, end = (torch.spyre.Event(enable_timing=True) for _ in range(2))
    begin.record()
    torch.ones(100).to("spyre")
    end.record()
    end.synchronize()
    assert begin.query() and end.query() and begin.elapsed_time(end) >= 0
    stream = torch.spyre.Stream()
    stream.wait_event(stream.record_event())
    torch.spyre.synchronize()
    torch.spyre.synchronize("spyre:0")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32, torch.bool])
def test_new_memory_is_filled_for_deterministic_algorithms(dtype):
    def made(device):
        like = torch.zeros(3, 2, dtype=dtype, device=device)
        return [
            torch.empty(3, 70, dtype=dtype, device=device),
            torch.empty_strided((3, 2), (2, 1), dtype=dtype, device=device),
            torch.empty_like(like),
            like.new_empty(5),
        ]

    torch.use_deterministic_algorithms(True)
    try:
        for ours, expected in zip(made("spyre"), made("cpu"), strict=True):
            if dtype == torch.float16:  # NaN and infinity are one code on the card
                assert ours.cpu().isinf().all() and expected.isnan().all()
            else:
                torch.testing.assert_close(ours.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    finally:
        torch.use_deterministic_algorithms(False)


def test_deterministic_algorithms_leave_integers_on_the_card():
    torch.use_deterministic_algorithms(True)
    try:
        with torch_spyre.fallback("error"):
            assert torch.empty(3, dtype=torch.int64, device="spyre").tolist() == [2**31 - 1] * 3
            made = torch.tensor([1, 2], device="spyre")
            assert (made + 1).tolist() == [2, 3]
            assert (torch.zeros(2, dtype=torch.int64, device="spyre") + made).tolist() == [1, 2]
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("write", [
    lambda wide: wide.copy_(torch.tensor([[1, 2], [3, 4]])),
    lambda wide: wide.copy_(torch.tensor([[1, 2], [3, 4]]).to("spyre")),
    lambda wide: wide.t().copy_(torch.tensor([[1, 3], [2, 4]])),
    lambda wide: wide.zero_().add_(torch.tensor([[1, 2], [3, 4]]).to("spyre")),
])  # fmt: skip
def test_what_overwrites_wide_integers_chooses_their_form_anew(write):
    wide = torch.tensor([[2**40, 1], [2, 3]], device="spyre")
    view = wide[1]
    with torch_spyre.fallback("error"):
        write(wide)
        assert (wide + 1).tolist() == [[2, 3], [4, 5]] and view.tolist() == [3, 4]
    wide.copy_(torch.tensor([2**40, 5]))  # broadcast
    assert wide.tolist() == [[2**40, 5]] * 2 and view.tolist() == [2**40, 5]


def test_tracers_make_tensors_with_deterministic_algorithms(run_python):
    """torch.tensor() in a mode of PyTorch's shuts Python out of what makes the tensor."""
    code = """
import torch
torch.use_deterministic_algorithms(True)
from torch._subclasses import FakeTensorMode
for data in ((), (1.0, 2.0), [[True]], 5):
    with FakeTensorMode(), torch.device("spyre"):
        assert torch.tensor(data).device.type == "spyre"
print(torch.compile(lambda x: x + torch.tensor(2.0), backend="sendnn")(torch.ones(3).half()))
"""
    assert "3., 3., 3." in run_python(code).stdout
