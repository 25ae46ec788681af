# SPDX-License-Identifier: Apache-2.0
"""What users get wrong: one clear error each, and a device that works afterwards."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch_spyre
from torch_spyre import _C


def card(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device="spyre")


@pytest.fixture(autouse=True)
def device_works_afterwards():
    yield
    assert (card(3) + 1).cpu().tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: torch.empty(1 << 62, 4, device="spyre"), "overflowed at dim 0 of size"),
        (lambda: torch.empty(1 << 40, 1 << 40, device="spyre"), "overflowed"),
        (lambda: torch.empty(-3, device="spyre"), "negative"),
        (lambda: torch.empty_strided((3,), (-1,), device="spyre"), "negative"),
        (lambda: torch.empty_strided((3, 2), (1,), device="spyre"), "mismatch in length"),
        (lambda: torch.empty(1 << 38, device="spyre"), r"\d+ bytes asked, \d+ bytes free"),
        (lambda: card(2).untyped_storage().resize_(1 << 50), "no host memory"),
    ],
)
def test_sizes_that_no_card_holds(make, message):
    with pytest.raises(RuntimeError, match=message):
        make()


@pytest.mark.parametrize(
    "size, message",
    [
        ((-2, -12), "invalid shape dimension -2"),
        ((-1, -1), "only one dimension can be inferred"),
        ((1 << 62, 4), "invalid for input of size 24"),
        ((5, -1), "invalid for input of size 24"),
    ],
)
def test_sizes_of_views(size, message):
    with pytest.raises(RuntimeError, match=message):
        card(4, 6).view(size)
    with pytest.raises(RuntimeError, match=r"\[-1, 0\] because .* is ambiguous"):
        card(0).view(-1, 0)
    with pytest.raises(RuntimeError, match="invalid for input of size 24"):
        card(4, 6).view(-1, 0)
    with pytest.raises(RuntimeError, match="mismatch in length"):
        torch.ops.aten._reshape_alias(card(4, 6), [24, 1], [1])


def shrunk(values):
    values.untyped_storage().resize_(8)
    return values


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.as_strided((10, 10), (10, 1)),
        lambda x: x.as_strided((2, 2), (-1, 1)),
        lambda x: x.as_strided((2, 2), (2, 1), 100),
        lambda x: x.as_strided((2, 2), (2, 1), -1),
        lambda x: x.as_strided((1 << 40, 1 << 40), (1 << 40, 1)),
        lambda x: x.new_empty(0).set_(x.untyped_storage(), 0, (1000,), (1,)).cpu(),
        lambda x: x.new_empty(0).set_(x.untyped_storage(), 0, (1000,), (1,)) + 1,
        lambda x: shrunk(x).cpu(),
        lambda x: shrunk(x) + 1,
        lambda x: shrunk(x).copy_(torch.ones(4, 6)),
    ],
)
def test_views_outside_their_storage(use):
    with pytest.raises((RuntimeError, ValueError), match="out of bounds for|overflow"):
        use(card(4, 6))


@pytest.mark.host("aten.index")
def test_tensors_of_two_devices():
    host = torch.ones(4, 4)
    for form in (torch.add, torch.matmul, lambda a, b: torch.cat([a, b])):
        with pytest.raises(RuntimeError, match="on the same device.*spyre:0.*cpu"):
            form(card(4, 4), host)
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.add(card(4), card(4), out=torch.empty(4))
    with pytest.raises(RuntimeError, match=r"tensors\[0\] on spyre:0 and tensors\[2\] on cpu"):
        torch.cat([card(4), card(4), torch.ones(4)])
    assert (card(2) + torch.tensor(3.0)).cpu().tolist() == [4, 4]
    assert card(4)[torch.tensor([1, 2])].cpu().tolist() == [1, 1]


_ON_TWO_CARDS = """
import torch
import torch_spyre
x, y = torch.ones(70, device="spyre:0"), torch.full((70,), 5.0, device="spyre:1")
for use in (lambda: x + y, lambda: x.add_(y), lambda: torch.add(x, x, out=y)):
    try:
        use()
    except RuntimeError as error:
        assert "Expected all tensors to be on the same device" in str(error), error
    else:
        raise AssertionError("one card's address was used on another")
assert (y + y).cpu().tolist() == [10] * 70 and y.to("spyre:0").cpu()[0] == 5
event, stream = torch.spyre.Event(), torch.spyre.Stream("spyre:1")
event.record()
stream.wait_event(event)
stream.synchronize()
"""


def test_tensors_of_two_cards(run_python):
    run_python(_ON_TWO_CARDS, AIU_WORLD_SIZE="2")


def test_lists_within_lists_without_end():
    nested = []
    nested.append(nested)
    with pytest.raises(RecursionError, match="in the arguments of a node"):
        _C.Graph().add_node("a", "aten.x", nested, [], None)


CONVOLUTIONS = {
    "to have 5 channels, but got 3": (torch.conv2d, (1, 3, 8, 8), (4, 5, 3, 3)),
    "to have 6 channels, but got 16": (torch.conv1d, (1, 16, 8), (4, 6, 3)),
    "to have 4 channels, but got 3": (torch.conv3d, (1, 3, 4, 4, 4), (4, 4, 3, 3, 3)),
    "Given transposed=1, .* to have 5 chan": (torch.conv_transpose2d, (1, 3, 8, 8), (5, 4, 3, 3)),
    "Kernel size can't be greater than": (torch.conv2d, (1, 3, 2, 2), (4, 3, 3, 3)),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("message", CONVOLUTIONS)
def test_convolutions_that_do_not_fit(message, compiled):
    convolution, image, weight = CONVOLUTIONS[message]
    convolution = torch.compile(convolution, dynamic=False) if compiled else convolution
    with pytest.raises(RuntimeError, match=message):
        convolution(card(*image, dtype=torch.float16), card(*weight, dtype=torch.float16))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("on_card", [0, 1, 2])
def test_convolutions_of_two_devices(on_card, compiled):
    operands = [torch.ones(s).half() for s in ((1, 3, 8, 8), (4, 3, 3, 3), (4,))]
    operands[on_card] = operands[on_card].to("spyre")
    torch._dynamo.reset()
    convolution = torch.compile(torch.conv2d, dynamic=False) if compiled else torch.conv2d
    with pytest.raises(RuntimeError, match="spyre:0"):
        convolution(*operands)


PLACES = torch.tensor([0, 1]), torch.tensor([0, 1, 2])
WRONG_ARGUMENTS = {
    "sort": (lambda x, y, i, j: x.sort(2), IndexError, "argument 1: dim 2 is outside"),
    "argsort": (lambda x, y, i, j: x.argsort(-3), IndexError, "argument 1: dim -3 is outside"),
    "_softmax": (lambda x, y, i, j: x.softmax(2), IndexError, "argument 1: dim 2 is outside"),
    "index_put": (lambda x, y, i, j: x.index_put((i, j), y), IndexError, "3 and 2 do not broad"),
    "attention": (
        lambda x, y, i, j: torch.nn.functional.scaled_dot_product_attention(
            x.expand(1, 2, 3, 5), x.expand(1, 3, 3, 5), x.expand(1, 3, 3, 5)
        ),
        RuntimeError,
        "2 query heads for 3 key heads",
    ),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_a_graph_refuses_by_the_class_of_pytorch(name):
    """Where PyTorch's kernels look and its meta kernels do not. Named: node, line, value, rule."""
    call, error, message = WRONG_ARGUMENTS[name]
    operands = card(3, 5), card(2), *(place.to("spyre") for place in PLACES)
    torch._dynamo.reset()
    with pytest.raises(torch_spyre.ArgumentError, match=message) as caught:
        torch.compile(call, dynamic=False)(*operands)
    assert isinstance(caught.value, error) and "test_bad_input.py:" in str(caught.value)
    with torch_spyre.fallback("silent"), pytest.raises(error):
        call(*operands)


def test_a_bias_of_another_length():
    image, weight, bias = (card(*s, dtype=torch.float16) for s in ((1, 3, 8, 8), (4, 3, 3, 3), [5]))
    with pytest.raises(RuntimeError, match="bias to be 1-dimensional with 4 elements.*size .5. "):
        torch.conv2d(image, weight, bias)


@pytest.mark.parametrize("key, value", [((4, 16), (4, 16)), ((4, 8), (5, 8))])
def test_attention_of_sizes_that_do_not_fit(key, value):
    query, key, value = (card(1, 2, *s, dtype=torch.float16) for s in ((3, 8), key, value))
    attention = torch.compile(torch.nn.functional.scaled_dot_product_attention)
    with pytest.raises(ValueError, match=r"of width 8, keys of width \d+; 4 keys, \d values"):
        attention(query, key, value)


def test_results_that_do_not_cast():
    with pytest.raises(RuntimeError, match="Float can't be cast to .* Int"):
        torch.add(card(4), card(4), out=card(4, dtype=torch.int32))
    with pytest.raises(RuntimeError, match="can't be cast to .* Int"):
        card(4, dtype=torch.int32).add_(1.5)


def test_an_exponent_that_is_no_number():
    x, flags = torch.ones(3).to("spyre"), torch.ones(3, dtype=torch.bool).to("spyre")
    powers = torch.tensor([-1, 0, 3])
    assert torch.ldexp(x, powers.to("spyre")).cpu().equal(torch.ldexp(torch.ones(3), powers))
    with torch_spyre.fallback("silent"), pytest.raises(NotImplementedError, match="Bool"):
        torch.ldexp(x, flags)


def test_the_sign_of_zero_is_part_of_a_scalar():
    assert torch.div(card(2), 0.0).cpu().tolist() == [float("inf")] * 2
    assert torch.div(card(2), -0.0).cpu().tolist() == [float("-inf")] * 2


OUT_OF_RANGE = {
    "embedding": lambda table, index: torch.nn.functional.embedding(index, table),
    "index_select": lambda table, index: table.index_select(0, index),
    "gather": lambda table, index: table.gather(0, index[:, None].expand(2, 64)),
    "index": lambda table, index: table[index],
    "index_add": lambda table, index: table.index_add(0, index, table[:2]),
    "nll_loss": lambda table, index: torch.nn.functional.nll_loss(table[:2, :10], index),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_index_outside_its_table_names_its_place(name, compiled):
    """PyTorch raises IndexError or RuntimeError, by the operator; the device stays usable."""
    function = OUT_OF_RANGE[name]
    bad = torch.tensor([3, 10]).to("spyre")
    line = "test_bad_input.py:\\d+ in <lambda>"
    place = line if compiled else f"{line}.*eager aten.{name}"
    with pytest.raises(torch_spyre.IndexFault, match=rf"{place}.*row 10, outside 0..9"):
        (torch.compile(function) if compiled else function)(card(10, 64), bad).cpu()
    assert issubclass(torch_spyre.IndexFault, IndexError)
    assert torch.equal((card(3) + 1).cpu(), (card(3) + 1).cpu())


def test_a_fault_names_the_line_of_its_launch_and_not_of_the_wait():
    """Each thread its own; one without Python has none."""
    table, bad = card(10, 64).requires_grad_(), torch.tensor([3, 10]).to("spyre")

    def look_up():
        torch.nn.Embedding(10, 64, _weight=table)(bad)

    def wait():
        with pytest.raises(torch_spyre.IndexFault) as fault:
            torch.spyre.synchronize()
        return str(fault.value)

    line = look_up.__code__.co_firstlineno + 1
    look_up()
    assert wait().startswith(f"test_bad_input.py:{line} in look_up: ")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(look_up).result()
    assert wait().startswith(f"test_bad_input.py:{line} in look_up: ")
    launched = torch.gather(table, 0, torch.zeros(1, 64, dtype=torch.int64).to("spyre"))
    launched.sum().backward()  # its launches are those of PyTorch's own thread
    assert table.grad.cpu()[0].tolist() == [1] * 64


def test_unknown_cards_and_streams():
    with pytest.raises(RuntimeError, match="invalid device ordinal 7"):
        torch.spyre.get_rng_state(7)
    with pytest.raises(ValueError, match="stream id 900"):
        torch.spyre.Stream(stream_id=900).synchronize()
    with pytest.raises(RuntimeError, match="invalid device ordinal 9"):
        torch.spyre.synchronize("spyre:9")
    with pytest.raises(RuntimeError, match="invalid device ordinal 9"):
        torch.accelerator.current_stream(9)


@pytest.mark.parametrize("stream_id", [-1, 77, (1 << 32) + 1])
def test_stream_numbers_that_no_card_has(stream_id):
    kind = int(torch._C._autograd.DeviceType.PrivateUse1)
    stream = torch.Stream(stream_id=stream_id, device_index=0, device_type=kind)
    for use in (stream.query, stream.synchronize, lambda: torch.accelerator.set_stream(stream)):
        with pytest.raises(RuntimeError, match=f"stream id {stream_id} is not in 0..64"):
            use()


@pytest.mark.parametrize(
    "use, message",
    [
        (lambda x: x.set_(torch.ones(4)), 'a storage on different device "cpu"'),
        (lambda x: x.set_(x.untyped_storage(), -3, (2, 2)), "invalid storage offset -3"),
        (lambda x: x.set_(x.untyped_storage(), 0, (2, 2), (1,)), "unequal size length"),
    ],
)
def test_storages_that_a_tensor_cannot_take(use, message):
    x = card(4)
    with pytest.raises(RuntimeError, match=message):
        use(x)
    assert x.cpu().tolist() == [1] * 4


@pytest.mark.parametrize(
    "size, stride, dtype, device, message",
    [
        ((64, 64), (1 << 60, 1), torch.float16, "spyre", "overflowed at dim 0"),
        ((-64, 64), (64, 1), torch.float16, "spyre", "must not be negative"),
        ((64, 64), (64,), torch.float16, "spyre", "mismatch in length of strides and shape"),
        ((64, 64), (64, 1), torch.complex64, "spyre", "does not support dtype ComplexFloat"),
        ((64, 64), (64, 1), torch.float16, "spyre:3", "invalid device ordinal 3"),
    ],
)
def test_tensors_with_a_layout_that_no_card_holds(size, stride, dtype, device, message):
    layout = _C.SpyreTensorLayout([64, 64], torch.float16)
    with pytest.raises(RuntimeError, match=message):
        _C.spyre_empty_with_layout(size, stride, dtype, layout, torch.device(device))


def test_a_layout_is_no_number():
    with pytest.raises(RuntimeError, match="a layout that _layout_address"):
        torch.ops.spyre._empty_with_layout([64, 64], [64, 1], torch.float16, 5, 0)


_IN_CHILD = """
import os, sys, torch
x = torch.ones(4).to("spyre")
compiled = torch.compile(lambda x: x * 2)
compiled(x)
event = torch.spyre.Event()
event.record()
uses = [lambda: x.cpu(), lambda: x + 1, lambda: repr(x), lambda: x.copy_(torch.ones(4)),
        lambda: x.copy_(x.clone()), lambda: compiled(x), lambda: torch.spyre.synchronize(),
        lambda: x[0].item(),
        lambda: torch.spyre.Stream(), lambda: torch.ones(2).to("spyre"), event.synchronize,
        lambda: torch.spyre.default_stream().synchronize()]
assert os.path.exists("/proc")
child = os.fork()
if child == 0:
    assert torch.spyre._is_in_bad_fork() and not torch.spyre.is_initialized()
    torch.spyre.memory_stats(), torch.spyre.reset_peak_memory_stats()
    for use in uses:
        try:
            use()
            os._exit(1)
        except Exception as error:
            assert type(error) is RuntimeError and "forked subprocess" in str(error), error
    del x, uses
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert x.cpu().tolist() == [1] * 4
"""


_OF_TWO_CARDS = """
import torch
one, two = (torch.rand(4, device=f"spyre:{card}").half() for card in range(2))
one + one
for function, operator in ((lambda: one + two, "add.Tensor has self on spyre:0 and other on s"),
                           (lambda: torch.where(one > 0, one, two), "other on spyre:1"),
                           (lambda: torch.cat([one, two]), "tensors[1] on spyre:1")):
    try:
        function()
    except RuntimeError as error:
        assert type(error) is RuntimeError and operator in str(error), error
        assert "but found at least two devices, spyre:0 and spyre:1!" in str(error)
    else:
        raise AssertionError(operator)
for generator in (torch.Generator(), torch.Generator("spyre:1")):
    for function in (lambda: torch.rand(2, device="spyre", generator=generator),
                     lambda: one.normal_(generator=generator),
                     lambda: torch.bernoulli(one, generator=generator)):
        try:
            function()
        except RuntimeError as error:
            rule = "Expected a 'spyre:0' device type for generator but found"
            assert f"{rule} '{generator.device}'" in str(error), error
        else:
            raise AssertionError(generator.device)
torch.rand(2, device="spyre:1", generator=torch.Generator("spyre:1").manual_seed(3))
"""


def test_tensors_and_generators_of_two_cards(run_python):
    run_python(_OF_TWO_CARDS, AIU_WORLD_SIZE="2")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_is_refused(run_python):
    run_python(_IN_CHILD)


@pytest.mark.parametrize("value", [0, 33, "abc", "", -4, 1.5])
def test_cores_that_no_card_has(value):
    from torch_spyre import config

    with pytest.raises(ValueError, match="config.sencores=.*: expected a whole number 1..32"):
        config.sencores = value


def test_the_number_of_cores_reaches_the_compiler():
    import torch_spyre
    from torch_spyre import config

    reports = []
    for value in (1, 32):
        torch._dynamo.reset()
        with config.patch(sencores=value):
            torch.compile(lambda y: (y @ y).exp(), dynamic=False)(
                card(256, 256, dtype=torch.float16)
            )
        reports.append(torch_spyre.last_report().card_us)
    assert reports[0] > 2 * reports[1]


def tiled(**hints):
    from torch_spyre._inductor import spyre_hint

    with spyre_hint(**hints):
        return None


@pytest.mark.parametrize(
    "use, error, message",
    [
        (lambda: tiled(work_div=[2]), TypeError, r"work_div=\[2\]: expected slices by names"),
        (lambda: tiled(tiles=None), TypeError, "tiles=None: expected counts of tiles by names"),
        (lambda: torch.ops.spyre.overwrite(card(2, 3), card(4, 3), [2], [0]), ValueError, "0..1"),
        (lambda: torch.ops.spyre.overwrite(card(2, 3), card(4, 3), [0], []), ValueError, "0..1"),
        (lambda: torch.spyre.stream("low"), TypeError, "expected a torch.spyre.Stream, got str"),
        (
            lambda: torch.empty(3, device="cpu", device_layout=card(3).device_tensor_layout()),
            ValueError,
            "device_layout: expected a spyre device, got cpu",
        ),
    ],
)
def test_arguments_of_the_wrong_kind(use, error, message):
    with pytest.raises(error, match=message):
        use()


@pytest.mark.parametrize("name, size", [("A", -1), (3, 4), ("", 4), ("a,b", 4)])
def test_dims_that_cannot_be_declared(name, size):
    from torch_spyre._inductor.wsr.propagate_named_dims import declare_tensor_dim

    with pytest.raises(ValueError, match="size -1 is negative|is no name of a dim"):
        declare_tensor_dim(name, size)


def test_no_stream_is_no_change():
    before = torch.spyre.current_stream()
    with torch.spyre.stream(None):
        assert torch.spyre.current_stream() == before


def test_an_error_is_the_only_one_that_is_shown():
    from torch_spyre import config

    with pytest.raises(ValueError, match="sencores") as caught:
        config.sencores = "none"
    assert caught.value.__cause__ is None


@pytest.mark.host("aten.argmax", "aten.topk", "aten.add", "aten.gelu")  # whose error it is
@pytest.mark.parametrize("compiled", (False, True), ids=("eager", "compiled"))
@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: (x > 0).argmax(), RuntimeError, "does not support bool"),
        (lambda x: (x > 0).topk(1), RuntimeError, "does not support bool"),
        (lambda x: torch.add(x, x, alpha=True), RuntimeError, "Boolean alpha"),
        (lambda x: torch.nn.functional.gelu(x.long()), NotImplementedError, "'Long'"),
    ],
)
def test_one_dtype_that_the_operator_does_not_take(call, error, message, compiled):
    torch._dynamo.reset()
    with pytest.raises(error, match=message):
        (torch.compile(call) if compiled else call)(card(3))
