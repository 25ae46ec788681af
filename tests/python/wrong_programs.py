# SPDX-License-Identifier: Apache-2.0
"""Random wrong programs: a few right operators and a last one that PyTorch refuses on the CPU.

`python wrong_programs.py` is a worker: it reads a number per line from stdin, makes the program of
that number and writes "cpu", then, once the CPU has refused it, "card TEXT OF THE CALL", then
"done VERDICT". A program that the CPU takes, or whose process ends while the CPU is at it, is none.
`judge()` runs numbers in such a worker, renews it when it ends or hangs, and gives what it finds.
"""

from __future__ import annotations

import math
import queue
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from aten_calls import arguments, on, outcome, overloads
from torch.utils import _pytree as pytree

HANG_S = 60  # of one program, the start of the worker included

# Right operators before the wrong one: their results, views and strides are what it gets.
_STEPS = (
    lambda x: x + x,
    lambda x: x.t() if x.dim() == 2 else x,
    lambda x: x[..., :-1] if x.dim() and x.shape[-1] > 1 else x,
    lambda x: x.unsqueeze(0),
    lambda x: x.expand(2, *x.shape),
    lambda x: x.clone(),
    lambda x: x,
)

_WRONG_DTYPES = (
    torch.int64,
    torch.bool,
    torch.float64,
    torch.complex64,
    torch.float16,
    torch.uint8,
)
_WRONG_NUMBERS = (7, -7, 2**31, -(2**40), 0, 1e300, math.nan)

# The CPU has no kernel for the dtype; the card, or the host in another dtype, may have one.
_NO_KERNEL = ("not implemented for", "does not support", "not supported", "Could not run")


class Program(NamedTuple):
    op: torch._ops.OpOverload
    steps: list[Any]
    args: list[Any]
    kwargs: dict[str, Any]

    def describe(self) -> str:
        def one(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
            return value

        args, kwargs = pytree.tree_map(one, (self.args, self.kwargs))
        return f"{self.op}{tuple(args)} {kwargs}".replace("\n", " ")[:400]


class Fault(NamedTuple):
    number: int
    what: str


_OPERATORS = list(overloads(lambda schema: any("Tensor" in str(a.type) for a in schema.arguments)))


def program(number: int) -> Program | None:
    """The program of a number, its tensors on the CPU; None where a type has no value."""
    r = random.Random(number)
    op = r.choice(_OPERATORS)
    made = arguments(r, op)
    if made is None or op._overloadname.startswith("prim_"):  # TorchScript's own
        return None
    args, kwargs = list(made[0]), dict(made[1])
    steps = [r.choice(_STEPS) for _ in range(r.randint(0, 2))]
    for _ in range(r.randint(1, 2)):
        place = r.randrange(len(args) + len(kwargs)) if args or kwargs else 0
        if place < len(args):
            args[place] = _spoilt(r, args[place])
        elif kwargs:
            name = sorted(kwargs)[place - len(args)]
            kwargs[name] = _spoilt(r, kwargs[name])
    return Program(op, steps, args, kwargs)


def _spoilt(r: random.Random, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return r.choice((_other_shape, _other_dtype, _expanded))(r, value)
    if isinstance(value, (list, tuple)):
        longer, shorter = [*value, *value, *value], list(value[1:])
        one_wrong = [_spoilt(r, value[0]), *value[1:]] if value else []
        return r.choice((longer, shorter, one_wrong))
    if isinstance(value, str):
        return "nonsense"
    if isinstance(value, bool):
        return not value
    return value if value is None else r.choice(_WRONG_NUMBERS)


def _other_shape(r: random.Random, x: torch.Tensor) -> torch.Tensor:
    sizes = [r.choice((0, 1, 3, 7)) for _ in range(r.randint(0, 4))]
    return torch.ones(sizes).to(x.dtype)


def _other_dtype(r: random.Random, x: torch.Tensor) -> torch.Tensor:
    return x.to(r.choice(_WRONG_DTYPES))


def _expanded(_r: random.Random, x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1)[:1].expand(5) if x.numel() else x


def _on(device: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and 0 in value.stride() and value.numel():
        return value[:1].to(device).expand(value.shape)  # a copy would have elements of its own
    return on(device, value)


def _run(made: Program, device: str) -> tuple[Any, ...]:
    args, kwargs = pytree.tree_map(lambda v: _on(device, v), (made.args, made.kwargs))
    for step in made.steps:
        if args and isinstance(args[0], torch.Tensor):
            args[0] = step(args[0])
    torch.manual_seed(0)
    return outcome(made.op, args, kwargs)


def verdict(made: Program, refused: tuple[Any, ...]) -> str:
    """What the card does with a program instead of refusing it as the CPU did; "" if it does."""
    found = _run(made, "spyre")
    wanted = refused[1]
    text = f"the CPU: {wanted.__name__}: {refused[2].splitlines()[0][:200] if refused[2] else ''}"
    if found[0] == "gives":
        return f"a result; {text}"
    if issubclass(found[1], wanted) or issubclass(wanted, found[1]):
        return ""
    return f"{found[1].__name__}: {found[2].splitlines()[0][:200] if found[2] else ''}; {text}"


# PyTorch's parser says these before any device is asked.
_OF_THE_PARSER = (
    "Expected a value of type",
    "expected at most",
    "Overflow",
    "is missing value for",
)


def _is_wrong(refused: tuple[Any, ...]) -> bool:
    words = (*_NO_KERNEL, *_OF_THE_PARSER)
    return refused[0] == "raises" and not any(each in refused[2] for each in words)


def _say(*words: str) -> None:
    print(" ".join(words), flush=True)


def _serve() -> None:
    import torch_spyre

    torch.set_num_threads(1)
    torch.ones(1).to("spyre")
    with torch_spyre.fallback("silent"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in sys.stdin:
            _say("cpu")
            made = program(int(line))
            refused = _run(made, "cpu") if made else ("gives",)
            if made is None or not _is_wrong(refused):
                _say("none")
                continue
            fresh = program(int(line))  # the CPU may have resized what it refused in the end
            assert fresh
            _say("card", fresh.describe())
            _say("done", verdict(fresh, refused))


# ---- the process above


class _Worker:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__], cwd=Path(__file__).parent,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put("")

    def run(self, number: int) -> tuple[str, str]:
        """(the last word of the worker, what follows it); "ended" or "hangs" and the call, if it
        was the card's turn."""
        assert self.process.stdin
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        call = ""
        while True:
            try:
                word, _, rest = self.lines.get(timeout=HANG_S).partition(" ")
            except queue.Empty:
                self.end()
                return "hangs", call
            if word == "card":
                call = rest
            elif word == "done":
                return word, f"{call}: {rest}" if rest else ""
            elif word != "cpu":
                return word or "ended", call

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def judge(numbers: Iterable[int], wanted: int) -> tuple[int, list[Fault]]:
    """Runs programs until `wanted` of them were wrong ones: their count, and the faults."""
    count, faults = 0, []
    for number, word, text in _verdicts(numbers):
        count += word == "done" or bool(text)
        if text:
            faults.append(Fault(number, text if word == "done" else f"{text}: the process {word}"))
        if count == wanted:
            break
    return count, faults


def _verdicts(numbers: Iterable[int]) -> Iterator[tuple[int, str, str]]:
    worker = _Worker()
    try:
        for number in numbers:
            word, text = worker.run(number)
            if word in ("ended", "hangs"):
                worker.end()
                worker = _Worker()
            yield number, word, text
    finally:
        worker.end()


if __name__ == "__main__":
    _serve()
