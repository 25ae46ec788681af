# SPDX-License-Identifier: Apache-2.0
"""Functions of torch_spyre._C by torch-spyre's names and signatures."""

import inspect

import pytest
import torch
from torch_spyre import _C

CARD = torch.device("spyre", 0)

# torch-spyre/torch-spyre, torch_spyre/csrc/module.cpp
SIGNATURES = {
    "get_stream_from_pool": ["device", "priority"],
    "set_current_stream": ["stream"],
    "current_stream": ["device"],
    "default_stream": ["device"],
    "synchronize": ["device"],
    "stream_get_error": ["stream"],
    "stream_get_error_string": ["error"],
    "get_device_state": [],
    "copy_tensor": ["self", "dst", "non_blocking"],
    "fill_tensor": ["self", "value"],
    "manual_seed": ["seed", "device"],
    "manual_seed_all": ["seed"],
    "get_rng_state": ["device"],
    "set_rng_state": ["new_state", "device"],
    "initial_seed": ["device"],
    "host_compute_stream": ["device"],
    "host_compute_stream_by_id": ["id", "device"],
    "SymbolicArg": ["kind", "tensor_id", "dim_index", "value"],
    "_resolve_symbolic_args": ["tensors", "symbolic_args"],
    "register_kernel_provenance": ["event_base_name", "debug_handle_ids"],
    "lookup_kernel_provenance": ["key"],
    "extract_kernel_provenance_key": ["event_name"],
    "as_strided_with_layout": ["self", "size", "stride", "storage_offset", "device_layout"],
    "reinterpret_tensor": ["self", "size", "stride", "offset_increment"],
    "reinterpret_tensor_with_layout": ["self", "size", "stride", "offset_increment", "stl"],
}


def numbers(*size: int) -> torch.Tensor:
    count = torch.Size(size).numel()
    return torch.arange(count, dtype=torch.float16).view(size)


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_have_torch_spyres_names(name):
    assert list(inspect.signature(getattr(_C, name)).parameters) == SIGNATURES[name]


def test_streams_by_device():
    low, high = _C.get_stream_from_pool(CARD), _C.get_stream_from_pool(CARD, priority=-1)
    assert isinstance(low, _C._SpyreStreamBase) and low.device() == CARD
    assert high.id() > low.id() > 0 == _C.default_stream(CARD).id()
    assert (low.priority(), high.priority()) == (0, -1)
    before = _C.set_current_stream(low)
    assert before == _C.default_stream(CARD) and _C.current_stream(CARD) == low
    assert _C.set_current_stream(before) == low
    _C.synchronize(CARD)
    _C.synchronize()


def test_healthy_streams_have_no_error():
    stream = _C.get_stream_from_pool(CARD)
    assert _C.stream_get_error(stream) == _C.SpyreStreamError.Success == 0
    assert _C.stream_get_error_string(_C.SpyreStreamError.Shutdown) == "Shutdown"
    torch.ones(3).to(CARD)
    assert _C.get_device_state() == _C.SpyreDeviceState.Ok
    with pytest.raises(ValueError, match="7"):
        _C.stream_get_error_string(7)


def test_a_failed_stream_is_told_until_it_is_handed_out_anew():
    stream = _C.get_stream_from_pool(CARD)
    table, row = numbers(4, 64).to(CARD), torch.tensor([9], dtype=torch.int32).to(CARD)
    with torch.spyre.stream(stream), pytest.raises(RuntimeError, match="row 9, outside 0..3"):
        torch.nn.functional.embedding(row, table)
        stream.synchronize()
    assert _C.stream_get_error(stream) == _C.SpyreStreamError.Shutdown
    assert _C.get_device_state() == _C.SpyreDeviceState.StreamError
    while _C.get_stream_from_pool(CARD) != stream:
        pass
    assert _C.stream_get_error(stream) == _C.SpyreStreamError.Success
    assert _C.get_device_state() == _C.SpyreDeviceState.Ok


def test_views_with_the_layout_of_their_storage():
    x = numbers(4, 128)
    card = x.to(CARD)
    layout = _C.get_spyre_tensor_layout(card)
    view = _C.as_strided_with_layout(card, (128, 2), (1, 256), None, layout)
    assert torch.equal(view.cpu(), x[::2].t())
    shifted = _C.as_strided_with_layout(card, (2, 128), (128, 1), 128, layout)
    assert torch.equal(shifted.cpu(), x[1:3])
    row = _C.reinterpret_tensor_with_layout(shifted, (128,), (1,), 128, layout)
    assert torch.equal(row.cpu(), x[2])
    row.fill_(7)
    assert card[2].eq(7).all() and torch.equal(card[3].cpu(), x[3])


def test_views_know_a_layout_with_dims_of_one_element():
    card = numbers(4, 128).to(CARD)
    layout = _C.get_spyre_tensor_layout(card)
    longer = _C.SpyreTensorLayout(
        [1, *layout.device_size], [512, *layout.stride_map], layout.device_dtype
    )
    view = _C.as_strided_with_layout(card, (1, 4, 128), (512, 128, 1), None, longer)
    assert torch.equal(view.cpu(), numbers(1, 4, 128))


def reused(base):
    """The memory of a tensor [4, 128] as one of [2, 256], as torch-spyre reuses buffers."""
    return _C.reinterpret_tensor_with_layout(
        base, (2, 256), (256, 1), 0, _C.SpyreTensorLayout([2, 256], torch.float16)
    )


def test_views_with_a_layout_of_their_own():
    base, x = numbers(4, 128).to(CARD), numbers(2, 256) + 3
    view = reused(base)
    assert _C.get_spyre_tensor_layout(view) != _C.get_spyre_tensor_layout(base)
    assert _C._card_bytes(view) == _C._card_bytes(base) != _C._card_bytes(x.to(CARD))
    view.copy_(x)
    assert torch.equal(view.cpu(), x) and _C._card_bytes(base) == _C._card_bytes(x.to(CARD))
    before = base.cpu()
    view.add_(1)  # in place, whichever of them is written
    base.mul_(2)
    assert torch.equal(view.cpu(), (x + 1) * 2) and torch.equal(base.cpu(), (before + 1) * 2)
    assert torch.equal(torch.compile(torch.neg)(view).cpu(), -view.cpu())
    for one in (base, view):  # neither moves
        with pytest.raises(_C.Unsupported, match="a view of another layout shares"):
            _C.set_spyre_tensor_layout(
                one, _C.SpyreTensorLayout(list(one.shape), one.stride(), torch.float16, [1, 0])
            )
    assert torch.equal(reused(base).cpu(), view.cpu())


def test_memory_lives_as_long_as_its_views():
    torch.spyre.synchronize()
    before = torch.spyre.memory_allocated()
    base = numbers(4, 128).to(CARD)
    view, other = reused(base), reused(base)
    expected, allocated = view.cpu(), torch.spyre.memory_allocated()
    assert allocated == before + 1024
    del base, other
    assert torch.spyre.memory_allocated() == allocated
    assert torch.equal(view.cpu(), expected)
    del view
    assert torch.spyre.memory_allocated() == before


@pytest.mark.parametrize(
    ("sizes", "offset", "dtype", "rule"),
    [
        ((2, 256), 128, torch.float16, "it begins where the storage does"),
        ((2, 512), 0, torch.float16, "2048 bytes .* storage of 1024 bytes"),
        ((2, 128), 0, torch.float32, "of IEEE_FP32 over .* of SEN169_FP16: the format must be"),
    ],
)
def test_views_with_a_layout_that_does_not_fit_are_refused(sizes, offset, dtype, rule):
    card = numbers(4, 128).to(CARD)
    with pytest.raises(_C.Unsupported, match=rule):
        _C.as_strided_with_layout(
            card, sizes, (sizes[1], 1), offset, _C.SpyreTensorLayout(list(sizes), dtype)
        )
    with pytest.raises(ValueError, match="2 sizes and 1 strides"):
        _C._share_with_layout(card, (2, 2), (1,), _C.SpyreTensorLayout([2, 2], torch.float16))


def test_tensors_of_the_host_are_reinterpreted_too():
    x = numbers(4, 6)
    layout = _C.SpyreTensorLayout([4, 6], torch.float16)
    assert torch.equal(_C.reinterpret_tensor(x[1:], (6,), (1,), 6), x[2])
    assert torch.equal(_C.reinterpret_tensor_with_layout(x, (6,), (1,), 18, layout), x[3])


def test_fill_and_copy():
    card = torch.empty(5, 70, dtype=torch.float16, device=CARD)
    assert _C.fill_tensor(card, 2.5) is card
    assert card.cpu().eq(2.5).all()
    _C.copy_tensor(numbers(5, 70), dst=card, non_blocking=True)
    assert torch.equal(card.cpu(), numbers(5, 70))
    with pytest.raises(RuntimeError, match="fill_tensor: expected a tensor of the spyre device"):
        _C.fill_tensor(torch.ones(2), 1.0)
    with pytest.raises(RuntimeError, match="with elements"):
        _C.fill_tensor(card[:0], 1.0)


def test_random_numbers_of_a_card():
    _C.manual_seed(11)
    state, first = _C.get_rng_state(), torch.rand(4, device=CARD).cpu()
    assert _C.initial_seed(device=0) == 11
    _C.set_rng_state(state, device=0)
    assert torch.equal(torch.rand(4, device=CARD).cpu(), first)
    _C.manual_seed_all(11)
    assert torch.equal(torch.rand(4, device=CARD).cpu(), first)


def test_the_generator_of_a_card_is_one_object():
    assert _C._get_default_generator() is _C._get_default_generator(0)


def test_streams_of_the_host_take_turns():
    first = _C.host_compute_stream(CARD)
    numbers = [_C.host_compute_stream(CARD).id() for _ in range(_C.LOW_STREAMS)]
    assert numbers[-1] == first.id() and len(set(numbers)) == _C.LOW_STREAMS
    assert _C.host_compute_stream_by_id(first.id(), CARD) == first
    with pytest.raises(RuntimeError, match=f"0 is not in 1..{_C.LOW_STREAMS}"):
        _C.host_compute_stream_by_id(0, CARD)


def test_symbolic_arguments_name_addresses_and_sizes():
    kinds = _C.SymbolicArgKind
    one, two = torch.zeros(3, 64, device=CARD), torch.zeros(5, device=CARD)
    args = [_C.SymbolicArg(kinds.kAddress, 1), _C.SymbolicArg(kinds.kDimension, 0, dim_index=1)]
    assert "tensor_id=1, dim_index=-1" in repr(args[0]) and args[1].value == -1
    address, size = _C._resolve_symbolic_args([one, two], args)
    (other,) = _C._resolve_symbolic_args([two], [_C.SymbolicArg(kinds.kAddress, 0)])
    assert address == other != _C._card_address(one) and size == 64
    for arg, rule in [
        (_C.SymbolicArg(kinds.kAddress, 2), "tensor_id=2 out of range"),
        (_C.SymbolicArg(kinds.kDimension, 1, 1), "dim_index=1 out of range"),
        (_C.SymbolicArg(kinds.kDimension, 0, 1, 65), "value=65, the tensor has 64"),
    ]:
        with pytest.raises(RuntimeError, match=rule):
            _C._resolve_symbolic_args([one, two], [arg])


def test_kernels_are_known_by_the_key_in_their_name():
    name = "spyre_kernel_v1_mul_add_abcdefgh234567ab"
    key = _C.extract_kernel_provenance_key(name + "#3")
    assert key == "abcdefgh234567ab"
    for other in (name + "#x", name[:-1], "spyre_kernel_v1__" + key, "x" + name, "plain"):
        assert _C.extract_kernel_provenance_key(other) is None
    before = _C.kernel_provenance_registry_stats()
    assert _C.lookup_kernel_provenance(key) is None
    assert all(_C.register_kernel_provenance(name, ["7", "9"]) for _ in range(2))
    with pytest.warns(UserWarning, match="it keeps the handles"):
        assert not _C.register_kernel_provenance(name, ["8"])
    with pytest.warns(UserWarning, match="no key at its end"):
        assert not _C.register_kernel_provenance("plain", ["8"])
    assert _C.lookup_kernel_provenance(key) == ["7", "9"]
    after = _C.kernel_provenance_registry_stats()
    assert all(after[n] == before[n] + 1 for n in ("entries", "hits", "misses", "conflicts"))


def test_levels_of_torch_spyres_native_loggers(tmp_path, capsys):
    log = _C._logging
    config = log.LoggingConfig.instance()
    assert config is log.LoggingConfig.instance()
    config.initialize_from_python([("spyre", 40), ("spyre.x.y", log.INFO)])
    levels = {name: config.get_log_level(name) for name in ("spyre.x", "spyre.x.y.z", "other")}
    assert levels == {"spyre.x": log.ERROR, "spyre.x.y.z": log.INFO, "other": log.WARNING}
    log.log_message("spyre.x.y", log.INFO, "shown")
    log.log_message("spyre.x", log.WARNING, "not shown")
    assert capsys.readouterr().err.startswith("[INFO] [spyre.x.y] ")
    config.set_log_file(str(tmp_path / "log"))
    log.emit_test_log("spyre.x", 40, "in the file")
    config.set_log_file("")
    assert (tmp_path / "log").read_text().endswith(" in the file\n")
    assert [log.string_to_log_level(log.log_level_to_string(n)) for n in (10, 50, 3)] == [10, 50, 0]


def test_arrangements_have_torch_spyres_numbers():
    names = ["STANDARD", "DL16_TO_FP32", "QFP8CH", "EXX2", "FP32_TO_DL16", "QFP8WT"]
    assert [a.name for a in _C.ElementArrangement] == names
    assert [a.value for a in _C.ElementArrangement] == list(range(6))
    layout = _C.SpyreTensorLayout([4, 128], torch.float16)
    moved = layout.with_element_arrangement(_C.ElementArrangement.QFP8WT)
    assert moved != layout and "ElementArrangement.QFP8WT" in str(moved)
