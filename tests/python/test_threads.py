# SPDX-License-Identifier: Apache-2.0
"""Threads that call operators and compiled functions for the first time, all at once."""

_BEGIN = """
import threading
import torch
import torch.nn.functional as F
call, get = torch.nn.Module.__call__, torch.nn.Module.__dict__.get("__getattr__")
wrong, start = [], threading.Barrier(6)

def in_threads(*works):
    def run(work, number):
        start.wait()
        try:
            for made, expected in work(number):
                torch.testing.assert_close(made.cpu().float(), expected, atol=3e-2, rtol=3e-2)
        except Exception as error:
            wrong.append(f"{work.__name__} {number}: {type(error).__name__}: {error}")
    threads = [threading.Thread(target=run, args=(works[n % len(works)], n)) for n in range(6)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not wrong, wrong
    assert torch.nn.Module.__call__ is call
    assert torch.nn.Module.__dict__.get("__getattr__") is get

def operators(number):
    own = torch.Generator().manual_seed(number)
    for width in range(17 * number + 3, 17 * number + 15, 3):
        x = torch.randn(5, width, generator=own).half()
        w = torch.randn(width, 9, generator=own).half()
        a, b, wide, factor = x.to("spyre"), w.to("spyre"), x.float(), w.float()
        yield a @ b, wide @ factor
        yield F.log_softmax(a, -1), F.log_softmax(wide, -1)
        yield F.layer_norm(a, (width,)), F.layer_norm(wide, (width,))
        yield F.smooth_l1_loss(a, a.flip(0)), F.smooth_l1_loss(wide, wide.flip(0))
        yield torch.cat([a, a])[:, ::2].t(), torch.cat([wide, wide])[:, ::2].t()
        a.requires_grad_()
        F.gelu(a @ b).sum().backward()
        wide.requires_grad_()
        F.gelu(wide @ factor).sum().backward()
        yield a.grad, wide.grad

def compiled(number):
    own = torch.Generator().manual_seed(number)
    model = torch.nn.Sequential(torch.nn.Linear(40, 70), torch.nn.GELU(), torch.nn.Linear(70, 7))
    for p in model.parameters():
        p.data = torch.rand(p.shape, generator=own) / 4 - 1 / 8
    rows = torch.randn(5 + number, 40, generator=own)
    expected = model(rows).detach()
    on_card = torch.compile(model.half().to("spyre"))
    for _ in range(8):
        result = on_card(rows.half().to("spyre"))
        yield result.detach(), expected
        result.float().sum().backward()
"""


def test_first_calls_of_operators(run_fresh_python):
    run_fresh_python(_BEGIN + "in_threads(operators)", PYTHONWARNINGS="error::UserWarning")


def test_first_calls_of_operators_and_of_compiled_functions(run_fresh_python):
    run_fresh_python(_BEGIN + "in_threads(operators, compiled)")


def test_compiled_functions_run_while_others_trace(run_compiling):
    code = """
import threading
import torch
import torch.nn.functional as F
f = torch.compile(lambda x: F.silu(x) * 2)
x = torch.ones(8, 64, dtype=torch.float16, device="spyre")
expected, done, wrong = f(x).cpu(), threading.Event(), []

def again():
    while not done.is_set():
        try:
            assert torch.equal(f(x).cpu(), expected)
        except Exception as error:
            wrong.append(error)
            return

thread = threading.Thread(target=again)
thread.start()
for width in range(1, 40):
    y = torch.ones(width, 3, dtype=torch.float16, device="spyre")
    F.smooth_l1_loss(y, y * 2)
    F.huber_loss(y, y * 2)
done.set()
thread.join()
assert not wrong, wrong
"""
    run_compiling(code)
