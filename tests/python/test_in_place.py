# SPDX-License-Identifier: Apache-2.0
"""Graphs that change their inputs: written in place by the op that computes the new contents."""

import pytest
import torch
import torch_spyre
from torch_spyre import _C
from torch_spyre._C import SpyreTensorLayout, get_device_dtype


def fp16(*shape):
    return torch.randn(shape, dtype=torch.float16)


def run(function, *args):
    """The arguments after a compiled call, held to the CPU; the report."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    expected = [a.clone() for a in args]
    wanted = function(*expected)
    card = [a.to("spyre") for a in args]
    with torch.no_grad():
        result = torch.compile(function, dynamic=False)(*card)
    for left, right in zip(card, expected, strict=True):
        torch.testing.assert_close(left.cpu(), right, atol=0.02, rtol=0.01)
    if wanted is not None:
        torch.testing.assert_close(result.cpu(), wanted, atol=0.02, rtol=0.01)
    return torch_spyre.last_report()


def add(x, y):
    x.add_(y)


def copy(x, y):
    x.copy_(torch.relu(y) * 2)


def rows(x, y):
    x[:, 4:6] = y[:, :2] * 2


def row(x, y):
    x[:, 3] = y[:, 0] * 2


def inner_rows(x, y):
    x[1:3, 5:7] = y[1:3, :2]


def overwrite(x, y):
    torch.ops.spyre.overwrite(y * 2, x[:, :16], [1], [0])


def cache(x, y, index):
    x.index_copy_(1, index, y[:, :1] * 2)


def put_rows(x, y, index):
    torch.ops.aten.index_put_(x, [None, index], y[:, :1])


SHAPE = (4, 16, 64)
ROW = 4 * 64 * 2  # bytes of a row of every batch


def test_an_op_writes_where_it_read():
    assert run(add, fp16(*SHAPE), fp16(*SHAPE)).bytes == 3 * 16 * ROW


def test_a_copy_is_written_by_what_computes_it():
    report = run(copy, fp16(*SHAPE), fp16(*SHAPE))
    assert report.nodes_on_host == 0 and report.bytes < 3 * 16 * ROW


@pytest.mark.parametrize(("function", "written"), [(rows, 2), (row, 1)])
def test_of_new_rows_only_the_rows_are_written(function, written):
    report = run(function, fp16(*SHAPE), fp16(*SHAPE))
    assert report.nodes_on_host == 0 and report.kernels == 1
    assert report.bytes < 3 * written * ROW


def test_a_part_of_a_part_is_written_on_the_card():
    assert run(inner_rows, fp16(*SHAPE), fp16(*SHAPE)).nodes_on_host == 0


@pytest.mark.filterwarnings("ignore:spyre..overwrite:DeprecationWarning")
def test_overwrite_is_the_cards():
    assert run(overwrite, fp16(*SHAPE), fp16(*SHAPE)).nodes_on_host == 0


@pytest.mark.parametrize(("function", "index"), [(cache, [7]), (put_rows, [0]), (put_rows, [-2])])
def test_a_row_at_an_index_is_the_cards(function, index):
    report = run(function, fp16(*SHAPE), fp16(*SHAPE), torch.tensor(index))
    assert report.nodes_on_host == 0
    assert report.bytes < 4 * ROW  # the new row in and out; arithmetic of the index


def test_a_cache_may_have_its_positions_outermost():
    whole, step, index = fp16(1, 16, 256, 128), fp16(1, 16, 1, 128), torch.tensor([70])
    outermost = SpyreTensorLayout(  # [position, head, half, batch, 64]
        [256, 16, 2, 1, 64], [128, 32768, 64, 524288, 1], get_device_dtype(torch.float16)
    )
    cache = whole.to("spyre", device_layout=outermost)
    operands = step.to("spyre"), index.to("spyre")
    write = torch.compile(lambda x, y, i: x.index_copy_(2, i, y), dynamic=False)
    torch._dynamo.reset()
    write(cache, *operands)
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.memory_allocated()
    write(cache, *operands)
    assert torch.spyre.max_memory_allocated() - before < cache.nbytes
    torch.testing.assert_close(cache.cpu(), whole.index_copy(2, index, step), atol=0.01, rtol=0.01)
    assert cache.device_tensor_layout() == outermost


def rotated(x, matrices):
    """Heads [B, H, L, D] turned by matrices [B, L, 2, 2, D/2], as models without sin and cos do."""
    batch, heads, length, width = x.shape
    pairs = x.transpose(1, 2).reshape(batch, length, heads, 1, 2, width // 2)
    return (matrices[:, :, None] * pairs).sum(4).flatten(3).transpose(1, 2)


def test_rotated_keys_are_appended_in_place_under_attention():
    def attend(queries, x, weight, index, matrices, keys, values):
        step = (x @ weight).view(1, 1, 2, 128).transpose(1, 2)
        keys.index_copy_(2, index, rotated(step, matrices))
        values.index_copy_(2, index, step)
        return torch.nn.functional.scaled_dot_product_attention(
            rotated(queries, matrices), keys, values, enable_gqa=True
        )

    sizes = (1, 4, 1, 128), (1, 1, 256), (256, 256), (1, 1, 2, 2, 64), *[(1, 2, 128, 128)] * 2
    card = [fp16(*size).to("spyre") for size in sizes]
    card.insert(3, torch.tensor([70]).to("spyre"))
    torch._dynamo.reset()
    compiled = torch.compile(attend, dynamic=False)
    compiled(*card)
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.memory_allocated()
    compiled(*card)
    assert torch.spyre.max_memory_allocated() - before < card[-1].nbytes


def test_an_index_outside_of_the_cache_is_a_fault(run_python):
    done = run_python(
        "import torch\n"
        "def put(x, y, index):\n"
        "    x[index] = y\n"
        "x = torch.zeros(16, 64, dtype=torch.float16, device='spyre')\n"
        "y = torch.ones(1, 64, dtype=torch.float16, device='spyre')\n"
        "torch.compile(put, dynamic=False)(x, y, torch.tensor([16], device='spyre'))\n"
        "try:\n"
        "    x.cpu()\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
    )
    assert "scatter of row 16, outside 0..15" in done.stdout


def test_old_contents_are_read_before_they_go():
    def turned(x):
        x.copy_(x.t() + x)

    def both(x, y):
        old = x * 2
        x.add_(y)
        return old + x

    run(turned, fp16(64, 64))
    run(both, fp16(64, 64), fp16(64, 64))


def test_a_result_is_no_view_of_the_argument():
    def twice(x, y):
        x.mul_(y)
        return x + 0

    x, y = fp16(64, 64).to("spyre"), fp16(64, 64).to("spyre")
    result = torch.compile(twice, dynamic=False)(x, y)
    kept = result.cpu()
    x.zero_()
    assert torch.equal(result.cpu(), kept)


def test_views_of_an_argument_see_the_new_contents():
    x, y = fp16(64, 64), fp16(64, 64)
    card = x.to("spyre")
    view = card[8:16]
    torch.compile(add, dynamic=False)(card, y.to("spyre"))
    torch.testing.assert_close(view.cpu(), (x + y)[8:16], atol=0.02, rtol=0.01)


def test_where_it_cannot_be_the_contents_are_copied():
    def columns(x, y):
        x[:, 3:9] = y[:, :6]

    run(columns, fp16(16, 64), fp16(16, 64))

    def part(x, y):
        x[2:6].add_(y[2:6])

    run(part, fp16(16, 64), fp16(16, 64))


def test_the_graph_says_what_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    run(add, fp16(*SHAPE), fp16(*SHAPE))
    assert "return %add into %" in next(tmp_path.glob("*.graph")).read_text()


def test_updates_are_checked():
    graph = _C.Graph()
    x = torch.zeros(4, 64, dtype=torch.float16, device="spyre")
    value = graph.add_input("x", x)
    with pytest.raises(ValueError, match="output 0: value 7 does not exist"):
        graph.add_update(7, value)
    with pytest.raises(ValueError, match="no input"):
        graph.add_update(value, 7)


def test_an_argument_beside_a_constant_tensor():
    def function(x):
        x.mul_(2)
        return torch.isin(x, torch.tensor([0.0, 1.0, 2.0], dtype=x.dtype, device=x.device))

    run(function, torch.randint(-4, 4, (5, 70)).half())
