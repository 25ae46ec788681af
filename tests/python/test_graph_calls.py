# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled graphs that go from Dynamo to the launch without Python in between."""

import gc
import weakref

import pytest
import torch
import torch.utils._pytree as pytree
from torch_spyre import _C, hints
from torch_spyre.compile import backend
from torch_spyre.compile.backend import CompiledGraph, programs


@pytest.fixture
def by_python(monkeypatch):
    """Counts the calls that Python serves; where names of dims are declared those are all."""
    hints.reset()
    counted = []
    served = CompiledGraph.__call__

    def call(self, args):
        counted.append(self)
        return served(self, args)

    monkeypatch.setattr(CompiledGraph, "__call__", call)
    return counted


def _halves(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(*shape, generator=generator).half()


def _compiled(function):
    torch._dynamo.reset()
    return torch.compile(function)


def _weighted(x, y, z):
    return z - x, x * y


def test_a_program_of_one_launch_is_called_directly(by_python):
    host = [_halves(8, 64), _halves(8, 64) * 2, _halves(8, 64) + 1]
    card = [x.to("spyre") for x in host]
    call = _compiled(_weighted)
    first = call(*card)
    assert len(by_python) == 1
    again = [call(*card) for _ in range(3)]
    assert len(by_python) == 1
    for results in [first, *again]:
        for result, expected in zip(results, _weighted(*host), strict=True):
            torch.testing.assert_close(result.cpu(), expected, atol=0.02, rtol=0.01)
            assert not result.requires_grad
    assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(first, again[-1], strict=True))


def test_other_views_and_sizes_have_programs_of_their_own(by_python):
    call = _compiled(lambda x: x * 2 + 1)
    x = _halves(64, 64)
    views = [x, x.t(), x[:32], x[:, :32]]
    for view in views * 2:
        torch.testing.assert_close(call(view.to("spyre")).cpu(), view * 2 + 1, atol=0.02, rtol=0.01)
    assert len(by_python) < 2 * len(views)


def test_arguments_that_are_left_out_or_given_back_in_another_order(by_python):
    call = _compiled(lambda x, y, z: (z * 2, x + 1))
    x, y, z = (_halves(4, 64) + n for n in range(3))
    for _ in range(3):
        doubled, more = call(*(t.to("spyre") for t in (x, y, z)))
        torch.testing.assert_close(doubled.cpu(), z * 2, atol=0.02, rtol=0.01)
        torch.testing.assert_close(more.cpu(), x + 1, atol=0.02, rtol=0.01)


def test_written_arguments_count_their_versions():
    def add(x, y):
        x.add_(y)
        return x * 2

    call = _compiled(add)
    x, y = _halves(4, 64).to("spyre"), torch.ones(4, 64, dtype=torch.float16).to("spyre")
    before = x.cpu()
    for n in range(1, 4):
        version = x._version
        result = call(x, y)
        assert x._version > version
        torch.testing.assert_close(x.cpu(), before + n, atol=0.02, rtol=0.01)
        torch.testing.assert_close(result.cpu(), x.cpu() * 2)


def test_results_that_are_views_of_arguments_stay_views():
    call = _compiled(lambda x: (x.view(64, 4), x + 1))
    x = _halves(4, 64).to("spyre")
    for _ in range(3):
        view, _sum = call(x)
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_gradients_are_not_lost():
    call = _compiled(lambda x, w: (x * w).sum())
    for _ in range(3):
        w = _halves(4, 64).to("spyre").requires_grad_()
        x = torch.ones(4, 64, dtype=torch.float16).to("spyre")
        call(x, w).backward()
        assert torch.equal(w.grad.cpu(), x.cpu())


def test_no_gradient_reaches_a_graph_of_inference():
    call = _compiled(lambda x, w: x * w)
    x, w = _halves(4, 64).to("spyre"), _halves(4, 64).to("spyre").requires_grad_()
    with torch.no_grad():
        for _ in range(3):
            assert not call(x, w).requires_grad


class _Wrapped(torch.Tensor):
    """A tensor in a subclass that wraps nothing else."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device
        )

    def __init__(self, inner):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, _context, _size, _stride):
        return _Wrapped(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, function, _types, args=(), kwargs=None):
        bare = pytree.tree_map_only(cls, lambda w: w.inner, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, cls, function(*bare[0], **bare[1]))


def test_subclasses_are_taken_apart_and_put_together():
    call = _compiled(lambda x, y: x * 2 + y)
    x, y = _halves(4, 64), _halves(4, 64) + 1
    for _ in range(3):
        result = call(_Wrapped(x.to("spyre")), _Wrapped(y.to("spyre")))
        assert type(result) is _Wrapped
        torch.testing.assert_close(result.inner.cpu(), x * 2 + y, atol=0.02, rtol=0.01)


def test_without_launch_nothing_is_launched(by_python):
    call = _compiled(lambda x: x + 1)
    x = _halves(4, 64).to("spyre")
    call(x)
    with backend.without_launch():
        assert not call(x).cpu().any()
    assert call(x).cpu().any()
    assert len(by_python) == 2


def test_names_of_dims_are_looked_at(by_python):
    call = _compiled(lambda x: x + 1)
    x = _halves(4, 64).to("spyre")
    call(x)
    hints.declare_tensor_dim("graph_calls", 64)
    try:
        call(x)
    finally:
        hints.reset()
    call(x)
    assert len(by_python) == 2


def test_a_program_that_has_gone_is_compiled_again(by_python):
    call = _compiled(lambda x: x * 3)
    x = _halves(4, 64).to("spyre")
    expected = call(x).cpu()
    call(x)
    assert len(by_python) == 1
    programs.clear()
    assert torch.equal(call(x).cpu(), expected)
    assert len(by_python) == 2


def test_a_graph_goes_with_its_function(by_python):
    call = _compiled(lambda x: x * 5)
    call(_halves(4, 64).to("spyre"))
    graph = weakref.ref(by_python.pop())
    del call
    torch._dynamo.reset()
    gc.collect()
    assert graph() is None


def test_what_is_in_use_stays():
    call = _compiled(lambda x: x * 7)
    x = _halves(4, 64).to("spyre")
    call(x)
    newest = next(reversed(programs._entries.values()))[0].program
    newest.used = False
    call(x)
    assert newest.used


def test_what_is_no_tensor_or_has_a_name():
    x = _halves(4, 64).to("spyre")
    other = _C.GraphCalls({}, (), lambda *args, **named: (args, named))
    assert other(x, more=1) == ((x,), {"more": 1})
    with pytest.raises(TypeError):
        other("no tensor")


def test_a_direct_launch_is_checked():
    with pytest.raises(TypeError, match="expected an Executable"):
        _C.DirectLaunch(None, 0, 0, (), ())
    call = _compiled(lambda x, y: x + y)
    x = _halves(4, 64).to("spyre")
    call(x, x.clone())
    executable = next(reversed(programs._entries.values()))[0].program.executable
    with pytest.raises(ValueError, match="takes no numbers and 1 inputs"):
        _C.DirectLaunch(executable, 0, 0, (0,), (0,))
    with pytest.raises(ValueError, match="number 1 of 1"):
        _C.DirectLaunch(executable, 0, 0, (0, 1), (1,))
    with pytest.raises(IndexError, match="segment 7"):
        _C.DirectLaunch(executable, 7, 0, (0, 1), (0,))


def test_only_calls_of_our_graphs_forgo_records():
    assert torch._dynamo.config.record_runtime_overhead
    call = _compiled(lambda x: x - 1)
    call(_halves(4, 64).to("spyre"))
    assert torch._dynamo.config.record_runtime_overhead
