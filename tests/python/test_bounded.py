# SPDX-License-Identifier: Apache-2.0
"""Memory of the host that a process keeps does not grow with the number of different calls."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch_spyre import config
from torch_spyre.compile import backend
from torch_spyre.compile.program import Program
from torch_spyre.eager import operator_program
from torch_spyre.program_cache import ProgramTable


def table(limit: int, used: set[str]) -> ProgramTable[str]:
    def release(value: str, always: bool) -> bool:
        return always or value not in used

    return ProgramTable(lambda: limit, len, release)


def test_a_table_keeps_what_was_used_last() -> None:
    one = table(10, set())
    # Of an entry's bytes only those of the value count here.
    one_entry = ProgramTable(lambda: 0, len, lambda *_: True)
    one_entry.add("a", "x")
    entry = one_entry.bytes - 1
    kept = table(3 * entry + 3, set())
    for key in "abc":
        kept.add(key, "x")
    assert kept.get("a") == "x"
    kept.add("d", "x")
    assert kept.get("b") is None
    assert all(kept.get(key) == "x" for key in "acd")
    assert kept.bytes == 3 * entry + 3
    kept.add("e", "a long one" * 10000)
    assert len(kept) == 1 and kept.get("e")  # the last one stays, however large
    kept.clear()
    assert (len(kept), kept.bytes) == (0, 0)
    one.add("a", "x")
    one.add("b", "y")
    assert len(one) == 1


def test_a_table_keeps_what_was_used_elsewhere() -> None:
    used = {"x"}
    kept = table(20000, used)
    for key in "xyz":
        kept.add(key, key)
    assert kept.get("x") == "x" and kept.get("y") is None
    used |= {"z", "w"}
    kept.add("w", "w")
    assert len(kept) == 2  # all were used: the limit holds nevertheless


@pytest.fixture
def small() -> Iterator[None]:
    torch.spyre.empty_cache()
    with config.patch(eager_bytes=2 << 20):
        yield


def test_eager_programs_go(small: None) -> None:
    x = torch.arange(64, dtype=torch.float16, device="spyre")
    sizes = range(60, 0, -1)  # those that grow would share a program
    for n in sizes:
        torch.testing.assert_close((x[:n] * 0.75).cpu(), torch.arange(n).half() * 0.75)
    assert 1 < len(operator_program.programs) < 40
    assert operator_program.programs.bytes <= 2 << 20
    # What the binding launches by itself counts as used.
    for n in sizes:
        x + x
        x[:n] - x[:n]
    known = [key[0] for key in operator_program.programs._entries]
    assert torch.ops.aten.add.Tensor in known
    torch.spyre.empty_cache()
    assert len(operator_program.programs) == 0
    assert (x + x)[3].item() == 6.0


def test_the_limit_holds_a_thousand_programs() -> None:
    """A recurrence written in Python reads other views in every step."""
    torch.spyre.empty_cache()
    rows, state = (torch.rand(shape, device="spyre").half() for shape in ((10, 40), (24, 16)))
    y = state
    for gate, new, weight in ((row[:16], row[16:32], row[32:33]) for row in rows):
        y = y * gate + new * (weight * state)
    programs = operator_program.programs
    assert y.isfinite().all() and len(programs) > 30
    assert config.eager_bytes > 1000 * programs.bytes / len(programs)


def in_three_threads(work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_programs_that_go_while_they_run(small: None) -> None:
    """Threads run programs that others let go."""
    x = torch.arange(64, dtype=torch.float16, device="spyre")
    expected = [torch.arange(n + 1).half() + n for n in range(16)]
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(150):
            n = (seed + step * 7) % 16
            if not torch.equal((x[: n + 1] + n).cpu(), expected[n]):
                wrong.append(n)
            if step % 10 == seed:
                torch.spyre.empty_cache()

    in_three_threads(work)
    assert wrong == []


@pytest.fixture
def graphs() -> Iterator[None]:
    torch.spyre.empty_cache()
    torch._dynamo.reset()
    gc.collect()
    assert len(backend.programs) == 0
    yield
    torch._dynamo.reset()


def compiled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def kept() -> list[Any]:
    """Programs of compiled graphs."""
    return [value.program for value, _size in backend.programs._entries.values()]


def test_programs_of_graphs_go(graphs: None) -> None:
    f = torch.compile(compiled, dynamic=True)
    inputs = [torch.randn(n, 64).half() for n in range(2, 32)]
    expected = [compiled(x) for x in inputs]
    with config.patch(graph_bytes=1 << 20):
        for _again in range(2):  # what has gone is compiled again
            for x, wanted in zip(inputs, expected, strict=True):
                torch.testing.assert_close(f(x.to("spyre")).cpu(), wanted, rtol=4e-3, atol=4e-3)
    assert all(isinstance(program, Program) for program in kept())
    assert 1 < len(kept()) < 25
    assert backend.programs.bytes <= 1 << 20


def test_what_a_graph_uses_stays(graphs: None) -> None:
    f = torch.compile(compiled, dynamic=True)
    often = torch.ones(50, 64).half().to("spyre")
    with config.patch(graph_bytes=1 << 20):
        f(often)
        (first,) = kept()
        for n in range(2, 32):
            f(torch.ones(n, 64).half().to("spyre"))
            f(often)
        assert any(program is first for program in kept())
        assert len(kept()) < 25


@pytest.mark.parametrize("empty", [torch.spyre.empty_cache, torch.accelerator.empty_cache])
def test_an_emptied_cache_has_no_programs(graphs: None, empty: Callable[[], None]) -> None:
    f = torch.compile(compiled)
    x = torch.ones(4, 64, dtype=torch.float16, device="spyre")
    assert f(x)[0, 0].item() == 3.0
    x + x
    assert len(backend.programs) == 1 and len(operator_program.programs) > 0
    empty()
    assert len(backend.programs) == 0 and len(operator_program.programs) == 0
    assert f(x)[0, 0].item() == 3.0
    assert len(backend.programs) == 1


def test_programs_go_with_their_graph(graphs: None) -> None:
    def local(x: torch.Tensor) -> torch.Tensor:
        return x * 2 - 1

    f = torch.compile(local)
    f(torch.ones(4, 64).half().to("spyre"))
    assert len(backend.programs) == 1
    del f, local
    torch._dynamo.reset()
    gc.collect()
    assert len(backend.programs) == 0 and backend.programs.bytes == 0


def test_programs_of_graphs_that_go_while_they_run(graphs: None) -> None:
    f = torch.compile(compiled, dynamic=True)
    inputs = [torch.full((n, 64), float(n)).half().to("spyre") for n in range(2, 10)]
    for x in inputs:
        f(x)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(60):
            n = (seed + step * 3) % 8
            if f(inputs[n]).cpu()[0, 0].item() != 2 * (n + 2) + 1:
                wrong.append(n)
            if step % 10 == seed:
                torch.spyre.empty_cache()

    in_three_threads(work)
    assert wrong == []


GROWTH = """
import sys
import torch
def resident():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * 4096 >> 20
def calls(first, last):
    x = torch.ones(2, 64, dtype=torch.float16).to("spyre")
    for n in range(first, last):
        if n % 2:
            y = torch.empty(n // 2 % 50000 + 1, 8, dtype=torch.float16, device="spyre") + n / 2
        elif n % 4:
            y = torch.empty(n % 317 + 1, n // 317 + 1, dtype=torch.float16, device="spyre").exp_()
        else:
            y = x.clamp(-n / 2, n / 8)
calls(0, 20)
before = resident()
calls(20, int(sys.argv[1]))
print(resident() - before)
"""


@pytest.mark.parametrize(
    "count, most_mb", [(2000, 120), pytest.param(100000, 200, marks=pytest.mark.long)]
)
def test_new_shapes_and_scalars_do_not_grow_the_process(count: int, most_mb: int) -> None:
    """Without the limit 2,000 programs of 120 KB would stay."""
    gc.collect()
    output = subprocess.run(
        [sys.executable, "-c", GROWTH, str(count)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SPYRE_EAGER_MEMORY": "48M"},
    ).stdout
    assert int(output) < most_mb
