# SPDX-License-Identifier: Apache-2.0
"""Programs that are interrupted, or end, while launches are queued: the queue is dropped."""

import signal
import subprocess
import sys
import time

import pytest
import torch

# Minutes of work, were it not dropped.
QUEUE = """
import _thread, signal, sys, time
# Shells start what runs in their background with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import torch
n = 4096
a = torch.ones(n, n, dtype=torch.float16).to("spyre")
columns = torch.ones(n, 64, dtype=torch.float16).to("spyre")
compiled = torch.compile(lambda x: x + x)
def queue():
    global b
    for _ in range(200):
        b = a @ a
def tell():
    print("queued", flush=True)
"""
SECONDS = 60


class Child:
    """A program that runs behind QUEUE; it says "queued" when it is about to wait."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", QUEUE + program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def interrupt_waits(self) -> None:
        """Sends SIGINT for every "queued"; ends with another line, or with the program."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line != "queued\n":
                break
            time.sleep(0.2)
            self.process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """Exit code and errors."""
        try:
            errors = self.process.communicate(timeout=SECONDS)[1]
        finally:
            self.process.kill()
        return self.process.returncode, errors


WAITS = [
    "torch.spyre.synchronize()",
    "torch.spyre.current_stream().synchronize()",
    "b.cpu()",
    "b[0, 0].item()",
    "a.copy_(torch.zeros(n, n))",
    "e = torch.spyre.Event(); e.record(); e.synchronize()",
    "[a @ a for _ in range(100000)]",
    "compiled(a).cpu()",
]


def test_waits_end_in_the_exception_of_the_handler() -> None:
    """Each wait is interrupted; afterwards the queue is empty and the card computes."""
    program = f"""
class Late(Exception):
    def __init__(self, count, what):
        self.count = count
calls = 0
def handler(*_):
    global calls
    calls += 1
    if calls == 1:  # returns, so the wait goes on
        _thread.start_new_thread(lambda: (time.sleep(0.3), signal.raise_signal(signal.SIGINT)), ())
    else:
        raise Late(calls, "kept as it is")
def attempt(wait):
    try:
        tell()
        eval(wait)
        raise AssertionError("went on")
    except (KeyboardInterrupt, Late) as error:
        assert error.__traceback__ is not None
        return error
def refuses(read):
    try:
        read()
    except RuntimeError as error:
        return "was cancelled" in str(error)
compiled(a)
for wait in {WAITS!r}:
    queue()
    wait = compile(wait, wait, "exec")  # exec() of text would mark the process as interrupted
    while not torch.spyre.current_stream().query():  # a signal may come before the wait
        error = attempt(wait)
    assert all(map(refuses, (b.cpu, lambda: b + 1, b.clone, lambda: b[0].sum().item()))), wait
    a.fill_(1)
    assert (a @ columns)[7, 9].item() == 4096.0, wait
signal.signal(signal.SIGINT, handler)
queue()
while not torch.spyre.current_stream().query():
    error = attempt(compile("b.cpu()", "", "exec"))
assert type(error) is Late and error.count == calls >= 2, (error, calls)
b.copy_(torch.ones(n, n))
assert (b + 1)[3, 3].item() == 2.0
"""
    child = Child(program)
    child.interrupt_waits()
    assert child.end() == (0, "")


def test_ctrl_c_ends_a_program() -> None:
    child = Child("queue()\ntell()\nwhile True: b = a @ a\n")
    child.interrupt_waits()
    code, errors = child.end()
    assert code == -signal.SIGINT and errors.endswith("KeyboardInterrupt\n"), (code, errors)


@pytest.mark.parametrize("ending, code", [("", 0), ("sys.exit(3)", 3)])
def test_a_program_that_ends_drops_its_queue(ending: str, code: int) -> None:
    assert Child(f"queue()\n{ending}\n").end() == (code, "")


def test_a_full_queue_lets_the_host_wait() -> None:
    """More launches than a stream takes, all of which count."""
    a = torch.ones(512, 512, dtype=torch.float16, device="spyre")
    total = torch.zeros(512, 512, dtype=torch.float32, device="spyre")
    product = a @ a
    for _ in range(3000):
        total = total + 1
    torch.testing.assert_close(total.cpu(), torch.full((512, 512), 3000.0))
    torch.testing.assert_close(product.cpu(), torch.full((512, 512), 512.0, dtype=torch.float16))
