# SPDX-License-Identifier: Apache-2.0
"""Sizes that change from call to call: one trace, a program for each."""

import copy

import pytest
import torch
import torch_spyre
import torch_spyre.report
from host_ops import HOST, on_host
from torch_spyre._inductor.wsr.propagate_named_dims import declare_tensor_dim
from torch_spyre.compile import call_compiler
from torch_spyre.compile.dynamic_sizes import symbolic_sizes


class Block(torch.nn.Module):
    """Attention over a length that only the call knows, with arithmetic on it."""

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(128, 384)
        self.norm = torch.nn.LayerNorm(128)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 6, width // 2).transpose(1, 2).chunk(3, 1)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        mixed = mixed.transpose(1, 2).reshape(batch * length, width)
        return self.norm(x.flatten(0, 1) + mixed).view(batch, length, width)


@pytest.fixture
def block():
    torch._dynamo.reset()
    return Block().half().eval()


def run(block, compiled, *shape):
    x = torch.randn(*shape, 128, dtype=torch.float16)
    expected = block.float()(x.float())
    torch.testing.assert_close(
        compiled(x.to("spyre")).cpu().float(), expected, atol=0.02, rtol=0.02
    )


@pytest.mark.parametrize("dynamic, programs", [(True, 4), (None, 5)])
def test_every_size_runs_on_the_card(block, dynamic, programs):
    """By default the first size has a trace of its own, then a program of the second trace too."""
    before = len(torch_spyre.compile_reports())
    compiled = torch.compile(copy.deepcopy(block).to("spyre"), dynamic=dynamic)
    with torch.no_grad():
        for shape in [(2, 16), (3, 33), (3, 34), (2, 16), (5, 7), (3, 34)]:
            run(block, compiled, *shape)
    reports = torch_spyre.compile_reports()[before:]
    assert len(reports) == programs  # sizes seen before have their program
    assert all(report.nodes_on_host == 0 and report.segments == 1 for report in reports)


def test_sizes_are_traced_once(block):
    compiled = torch.compile(block.to("spyre"), dynamic=True)
    with torch.no_grad():
        compiled(torch.randn(2, 16, 128, dtype=torch.float16).to("spyre"))
        frames = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        for length in range(17, 25):
            compiled(torch.randn(2, length, 128, dtype=torch.float16).to("spyre"))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == frames


def test_numbers_of_any_sign_that_are_sizes():
    """A number with a bound above and none below is no size that has buckets."""

    def function(x, count):
        assert count <= 8
        return x[:, :count] * 2 + count

    compiled = torch.compile(function)
    x = torch.randn(4, 64, dtype=torch.float16)
    for count in (3, 5, 6, -3):
        actual = compiled(x.to("spyre"), count).cpu()
        torch.testing.assert_close(actual, function(x, count), atol=0.01, rtol=0.01)


def test_a_dim_marked_dynamic():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x * 2).sum(-1) + x.shape[0])
    for rows in (9, 70, 9, 128):
        x = torch.randn(rows, 64, dtype=torch.float16)
        on_card = x.to("spyre")
        torch._dynamo.mark_dynamic(on_card, 0, min=2, max=128)
        expected = (x.float() * 2).sum(-1) + rows
        torch.testing.assert_close(compiled(on_card).cpu().float(), expected, atol=0.1, rtol=0.01)


def sweep(function, lengths, dim=0, shape=(64,), **bounds):
    """Calls at every length; the programs it took."""
    torch._dynamo.reset()
    torch_spyre.report.reports.clear()  # a full list would not grow
    compiled = torch.compile(function)
    for length in lengths:
        sizes = list(shape)
        sizes.insert(dim, length)
        x = torch.randn(sizes, dtype=torch.float16)
        on_card = x.to("spyre")
        torch._dynamo.mark_dynamic(on_card, dim, **bounds)
        result, expected = compiled(on_card), function(x.float())
        assert result.shape == expected.shape and result.is_contiguous()
        torch.testing.assert_close(result.cpu().float(), expected, atol=0.02, rtol=0.02)
    return len(torch_spyre.compile_reports())


def test_a_program_serves_a_bucket_of_sizes():
    assert sweep(torch.exp, range(33, 65), min=32, max=128) == 1
    assert sweep(torch.exp, [33, 64, 65, 96, 97, 128, 40], min=32, max=128) == 1
    assert sweep(lambda x: torch.softmax(x, -1).sum(-1), range(9, 17), min=2, max=128) == 1
    assert (
        sweep(lambda x: torch.layer_norm(x, [64]) * 2, [5, 6, 7, 8], 1, (2, 64), min=2, max=64) == 1
    )


def test_declared_dims_do_not_keep_other_tensors_from_buckets():
    declare_tensor_dim("elsewhere", 77)
    assert sweep(torch.exp, range(33, 40), min=32, max=128) == 1


def test_filling_up_compiles_nothing():
    sweep(torch.exp, [33], min=32, max=64)
    before = torch_spyre.compile_statistics()["compilations"]
    assert sweep(torch.tanh, [35, 34, 38, 39], min=32, max=64) == 1
    # Of the program of all sizes and of one that it is compared with.
    assert torch_spyre.compile_statistics()["compilations"] <= before + 2


def test_buckets_of_a_layer():
    def layer(x):
        scaled = torch.softmax(x.view(x.shape[0], 2, 32), -1).transpose(1, 2)
        return torch.cat((scaled.reshape(x.shape[0], 64), x.unsqueeze(0).squeeze(0)), -1) + 1

    assert sweep(layer, range(17, 33), min=16, max=64) == 1


@pytest.mark.host("aten.flip")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(0),
        lambda x: x - x.amax(0, keepdim=True),
        lambda x: torch.softmax(x, 0),
        lambda x: x.t() @ x * 0.1,
        lambda x: x * x.shape[0],
        lambda x: x / x.shape[0] + x.shape[0] / 8,
        lambda x: x - x.mean(0),
        lambda x: x * x.std(0),
        lambda x: x[1:] + x[:-1],
        lambda x: x[-1] * x[:1],
        lambda x: x.flip(0),
        lambda x: x.flatten() + 1,
        lambda x: torch.cat((x, x), 0),
        lambda x: x.median(0).values,
    ],
)
def test_what_would_see_the_filling_leaves_it_out(function):
    assert sweep(function, [33, 34, 35], min=32, max=64) == 1


@pytest.mark.parametrize("function", [
    lambda x: x.median(0).values,
    lambda x: x.float().median(0).values,
    lambda x: x.float().nanmedian(0).values,
])  # fmt: skip
def test_medians_take_any_bounds(function):
    assert sweep(function, [4, 5, 17, 40, 63], min=3, max=64) <= 5


@pytest.mark.parametrize("bounds", [{"min": 4, "max": 256}, {}])
def test_few_programs_serve_all_lengths_of_attention(bounds):
    def function(x):
        heads = (x * 0.5).unflatten(-1, (2, 32)).transpose(1, 2)
        mixed = torch.nn.functional.scaled_dot_product_attention(
            heads, heads, heads, is_causal=True
        )
        return mixed.transpose(1, 2).flatten(2) / x.shape[1]

    assert sweep(function, range(64, 200, 7), 1, (3, 64), **bounds) <= (2 if bounds else 9)


def test_results_that_are_views_have_a_program_a_size():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x.softmax(0), x[1], x.transpose(0, 1)), dynamic=True)
    for length in range(9, 20):
        x = torch.randn(3, length, 64).half()
        views = x[1], x.transpose(0, 1)
        for found, wanted in zip(compiled(x.to("spyre"))[1:], views, strict=True):
            torch.testing.assert_close(found.cpu(), wanted)
            assert found.stride() == wanted.stride()
            assert found.storage_offset() == wanted.storage_offset()


def test_granularity_of_buckets():
    from torch_spyre import config
    from torch_spyre.compile.dynamic_sizes import bucket_ends

    assert bucket_ends.granularity(64, 512) == 64
    assert bucket_ends.granularity(2, 128) == 4
    assert bucket_ends.granularity(2, 2048) == 64
    assert bucket_ends.granularity(2, 127) == 127
    assert bucket_ends.granularity(4, 1024) == 32
    with config.patch(max_buckets=4, min_default_granularity=8):
        assert bucket_ends.granularity(2, 128) == 32
        assert bucket_ends.granularity(2, 16) == 8


@pytest.mark.host(HOST)
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1].chunk(5, -1),
        lambda x: [on_host(x), *x.transpose(0, 1).chunk(3)],
        lambda x: x.chunk(3)[1].squeeze(0).split(64, 1),
        lambda x: [x.add_(1), *x.chunk(2, 2)],
    ],
)
def test_results_that_are_views_of_an_argument(function, dynamic):
    """Nothing else reads them. AOTAutograd takes strides and place of such a result for its own."""
    torch._dynamo.reset()
    cpu = torch.arange(3 * 70 * 127, dtype=torch.float32).reshape(3, 70, 127)
    card = cpu.to("spyre")
    found, expected = torch.compile(function, dynamic=dynamic)(card), function(cpu)
    for actual, wanted in zip(found, expected, strict=True):
        assert (actual.stride(), actual.storage_offset()) == (
            wanted.stride(), wanted.storage_offset(),
        )  # fmt: skip
        torch.testing.assert_close(actual.cpu(), wanted)
        shares = wanted.untyped_storage().data_ptr() == cpu.untyped_storage().data_ptr()
        assert (actual.untyped_storage().data_ptr() == card.untyped_storage().data_ptr()) == shares


def test_slices_of_nothing():
    torch._dynamo.reset()
    x = torch.zeros(0, 5, dtype=torch.float16, device="spyre")
    found = torch.compile(lambda x: x[:, 1:3:2] + 1, dynamic=True)(x)
    assert found.shape == (0, 1)


H = torch.float16


def attend(x):
    return torch.softmax(x @ x.transpose(-1, -2) * 0.125, -1) @ x


def causal(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)


FEED = torch.nn.Sequential(
    torch.nn.LayerNorm(64), torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)
)


@pytest.mark.parametrize(
    "function, shape, dim",
    [
        (lambda x: torch.exp(x) * 2 + x, (64,), 0),
        (lambda x: (torch.softmax(x, -1), x.float() + 1), (100,), 0),
        (lambda x: x.relu() * 2, (3, 128), 1),
        (FEED, (64,), 0),
        (lambda x: torch.softmax(x @ x.transpose(-1, -2), -1) @ x, (40, 64), 0),
        (lambda x: torch.cat([x * 2, x], 1) + 1, (64,), 0),
        (lambda x: torch.cat([x, x * 2], 0), (4, 64), 1),
        (lambda x: torch.cat([x.relu(), x.exp(), x], 1).sum(1), (2, 64), 0),
        (lambda x: x[..., 64:].sigmoid() * x[..., :64], (128,), 0),
        (lambda x: x.relu() * 2, (4,), 1),
    ],
    ids=[
        "element-wise",
        "rows",
        "inner dim",
        "feed-forward",
        "attention over a batch",
        "joined",
        "joined outside",
        "joined and summed",
        "halves",
        "sticks",
    ],
)
def test_one_program_serves_all_buckets(function, shape, dim, monkeypatch):
    """Two compilations, at the largest size and a granule below, and every bit of the programs that
    are compiled for a size."""
    torch._dynamo.reset()
    if isinstance(function, torch.nn.Module):
        function = copy.deepcopy(function).half().eval().to("spyre")
    compiled = torch.compile(function)
    torch_spyre.report.reports.clear()
    graphs = []  # beside copies, which are eager operators
    told = [lambda made: graphs.append(made) if "(eager " not in made.report() else None]
    monkeypatch.setattr(call_compiler, "observers", told)
    cases = []
    with torch.no_grad():
        for size in (17, 32, 256, 100, 241, 64):
            sizes = list(shape)
            sizes.insert(dim, size)
            x = torch.randn(sizes, dtype=H)
            on_card = x.to("spyre")
            torch._dynamo.mark_dynamic(on_card, dim, min=16, max=256)
            cases.append((x, compiled(on_card)))
        assert len(graphs) == 2
        assert len(torch_spyre.compile_reports()) == 1
        torch._dynamo.reset()
        static = torch.compile(function, dynamic=False)
        for x, results in cases:
            expected = static(x.to("spyre"))
            for one, other in zip(
                *map(torch.utils._pytree.tree_leaves, (results, expected)), strict=True
            ):
                assert one.shape == other.shape
                assert one.cpu().equal(other.cpu()), x.shape


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cat((x, x), 0).relu(),
        lambda x: torch.cat((x, x * 2, x), 0).relu(),
        lambda x: x.repeat(3, 1) * 2,
        lambda x: torch.cat((x, x), 0).sum(0),
        lambda x: torch.cat((x, x * 2), 0) - torch.cat((x * 2, x), 0),
        lambda x: torch.cat((x, -x), 0).softmax(-1),
        lambda x: torch.stack((x, x)).exp(),
    ],
    ids=["joined", "three parts", "repeated", "summed", "two", "rows of two", "stacked"],
)
def test_loops_over_a_multiple_of_the_size(function):
    assert sweep(function, [8, 48, 24, 16, 40, 32], 0, (128,), min=8, max=48) == 1


def test_a_smaller_size_that_is_planned_otherwise():
    """192 rows keep in LX what 256 do not; 128 are planned as 256."""
    sizes = [17, 32, 256, 100, 241, 64]
    assert sweep(lambda x: x @ x.t() * 0.1, sizes, min=16, max=256) == 1


def test_where_one_program_cannot_serve_each_bucket_has_its_own(monkeypatch):
    told = []
    monkeypatch.setattr(
        symbolic_sizes._log, "info", lambda text, *values: told.append(text % values)
    )
    lengths = [33, 70, 128, 66, 35]
    assert sweep(lambda x: torch.exp(x) * 2 + x, lengths, 0, (33,), min=32, max=128) == 3
    assert len(told) == 1 and "rounded up" in told[0]
    reports = torch_spyre.compile_reports()
    assert len(reports) == 3 and all("rounded up" in report.one_bucket for report in reports)
    assert f"not one program for all sizes: {reports[-1].one_bucket}" in str(reports[-1])


def test_a_program_of_all_buckets_has_no_reason_against_it():
    assert sweep(lambda x: x.relu(), [32, 64, 96], min=32, max=128) == 1
    assert torch_spyre.last_report().one_bucket == ""


@pytest.mark.parametrize(
    "function, shape, dim",
    [
        (lambda x: torch.softmax(x, -1), (8,), 1),
        (lambda x: (x - x.amax(0)).exp().sum(0), (128,), 0),
        (lambda x: x.t() @ x * 0.1, (64,), 0),
        (lambda x: x.flatten() + 1, (64,), 0),
        (attend, (64,), 0),
        (attend, (2, 4, 64), 2),
        (lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x), (2, 4, 64), 2),
        (causal, (2, 4, 64), 2),
        (lambda x: x - x.mean(0), (128,), 0),
        (lambda x: x * x.mean(), (64,), 0),
        (lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), (8,), 1),
        (lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]), (3, 8), 2),
        (lambda x: torch.nn.functional.group_norm(x, 2), (3, 8), 2),
        (lambda x: x.reshape(3, -1).var(-1), (3, 8), 2),
    ],
    ids=[
        "softmax of sticks",
        "reduced",
        "contracted",
        "flattened",
        "attention",
        "attention by hand of heads",
        "attention of heads",
        "causal attention",
        "mean",
        "mean of all",
        "layer_norm",
        "layer_norm over two dims",
        "group_norm",
        "variance of joined dims",
    ],
)
def test_one_program_serves_sizes_that_end_a_bucket(function, shape, dim):
    """Where operators mix elements along the dim what is filled in has to be left out: other sizes
    have a program for all of them."""
    lengths = [512, 64, 320, 192, 448, 128, 64]
    assert sweep(function, lengths, dim, shape, min=64, max=512) == 1
    assert sweep(function, [*lengths, 100, 99, 100, 230], dim, shape, min=64, max=512) == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_layer_norms_along_a_size_have_the_bits_of_their_own_program(dtype):
    def normed(x, w, b):
        return torch.native_layer_norm(x, w.shape, w, b, 1e-5)

    torch._dynamo.reset()
    compiled = torch.compile(normed)
    for size in (512, 100, 99, 230):
        x = torch.randn(40, size) * 3 + torch.randn(40, 1) * 5
        given = [t.to(dtype).to("spyre") for t in (x, torch.randn(size), torch.randn(size))]
        for tensor in given:
            torch._dynamo.mark_dynamic(tensor, tensor.dim() - 1, min=64, max=512)
        for got, expected in zip(compiled(*given), normed(*given), strict=True):
            assert torch.equal(got.cpu(), expected.cpu()), size


def test_rows_that_end_inside_of_sticks_have_one_program():
    lengths = [512, 256, 128, 100]
    assert sweep(lambda x: x[:, 1:] + x[:, :-1], lengths, 1, (8,), min=64, max=512) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:] * 2,
        lambda x: x[1:] - x[:-1],
        lambda x: torch.cat((x[1:], x[:1])) + 1,
        lambda x: torch.cat((x, x[:3])).relu(),
        lambda x: torch.nn.functional.pad(x, (0, 0, 1, 0)) * 0.5,
        lambda x: x[2:] * 3 + x[1:-1] * 2 + x[:-2],
        lambda x: (x[1:] - x[:-1]).abs().amax(0),
        lambda x: x[:-1].softmax(-1),
    ],
    ids="rest neighbours rotated longer padded taps reduced softmax".split(),
)
def test_one_program_serves_sizes_that_are_sums(function):
    assert sweep(function, [64, 4, 36, 8, 60, 40], 0, (64,), min=4, max=64) == 1


def taps(x):
    return x[:, 2:] * 0.5 + x[:, 1:-1] + x[:, :-2]


def halves(x):
    joined = torch.cat((taps(taps(x)), -taps(taps(x))), 1)
    return torch.cat((joined[..., 32:], joined[..., :32]), -1)


def scores(x):
    joined = torch.cat((taps(x), taps(x)[:, :1]), 1)
    return (joined @ joined.transpose(1, 2) / 64).softmax(-1) @ joined


@pytest.mark.parametrize("function", [halves, scores])
def test_sums_that_end_inside_of_sticks(function):
    """A program a length, where lengths lie along sticks inside of the graph."""
    sweep(function, [128, 64], 1, (3, 64), min=64, max=128)
    sweep(function, [320, 64, 256], 1, (3, 64), min=64, max=320)
    assert torch_spyre.last_report().one_bucket


@pytest.mark.parametrize("correction", [1, 2, 0])
def test_variances_along_a_symbolic_size_have_one_program(correction):
    function = lambda x: x * x.std(0, correction=correction)  # noqa: E731
    assert sweep(function, [64, 4, 36, 8, 60], 0, (64,), min=4, max=64) == 1


def sweep_both(function, sizes, rows=(8, 32), lengths=(16, 256)):
    """Calls at rows and lengths; the programs it took, and the results beside the arguments."""
    torch._dynamo.reset()
    torch_spyre.report.reports.clear()
    compiled = torch.compile(function)
    cases = []
    with torch.no_grad():
        for size in sizes:
            x = torch.randn(*size, 64, dtype=H)
            on_card = x.to("spyre")
            torch._dynamo.mark_dynamic(on_card, 0, min=rows[0], max=rows[1])
            torch._dynamo.mark_dynamic(on_card, 1, min=lengths[0], max=lengths[1])
            cases.append((x, compiled(on_card)))
    return len(torch_spyre.compile_reports()), cases


@pytest.mark.parametrize(
    "function, most",
    [
        (lambda x: torch.exp(x) * 2 + x, 32),
        (lambda x: (torch.softmax(x, -1), x.float() + 1), 16),
        (lambda x: torch.cat([x, x * 2], -1).relu(), 32),
        (lambda x: x.transpose(0, 1).relu() + 1, 32),
    ],
    ids=["element-wise", "rows", "joined", "transposed"],
)
def test_one_program_serves_two_dims(function, most):
    """Every bit of the programs that are compiled for the sizes."""
    sizes = [(8, 16), (most, 256), (8, 100), (16, 64), (9, 241), (most, 32)]
    programs, cases = sweep_both(function, sizes, (8, most))
    assert programs == 1
    torch._dynamo.reset()
    static = torch.compile(function, dynamic=False)
    for x, results in cases:
        with torch.no_grad():
            expected = static(x.to("spyre"))
        pairs = zip(*map(torch.utils._pytree.tree_leaves, (results, expected)), strict=True)
        for one, other in pairs:
            assert one.shape == other.shape and one.cpu().equal(other.cpu()), x.shape


def test_two_dims_of_which_one_is_mixed():
    """Attention over the lengths of a batch: sizes that end a bucket are one program's."""
    programs, cases = sweep_both(attend, [(8, 64), (16, 320), (64, 192)], (8, 64), (64, 1024))
    assert programs == 1
    for x, result in cases:
        torch.testing.assert_close(result.cpu().float(), attend(x.float()), atol=0.02, rtol=0.02)


def test_two_dims_that_are_one_of_rows():
    """A linear layer takes rows and lengths as one dim, of their product."""
    feed = copy.deepcopy(FEED).half().eval()
    expected, on_card = feed.float(), copy.deepcopy(feed).half().to("spyre")
    programs, cases = sweep_both(on_card, [(8, 16), (32, 256), (8, 128), (16, 64)])
    assert programs == 1
    for x, result in cases:
        torch.testing.assert_close(result.cpu().float(), expected(x.float()), atol=0.02, rtol=0.02)


def test_of_two_dims_that_no_program_serves_both_of_the_wider_one_shares():
    """Sequences of 16 lengths in batches of four sizes: a program for each of the two called."""
    with torch_spyre.config.patch(max_combined_buckets=63):
        assert sweep_both(torch.exp, [(8, 16), (16, 40), (8, 256), (16, 100)])[0] == 2


def test_one_program_is_a_choice():
    with torch_spyre.config.patch(symbolic_programs=False):
        assert sweep(torch.exp, [33, 64, 65, 96, 97, 128, 40], min=32, max=128) == 3
