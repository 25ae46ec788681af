# SPDX-License-Identifier: Apache-2.0
"""Whose fault a wrong number is: runs a program and computes every graph and operator three times.

    spyre-bisect [--atol A] [--rtol R] script.py [arguments]

(or: python -m torch_spyre.debug.bisect)

PyTorch on the CPU, node by node, is what should come out; the interpreter of bundles
(docs/bundle.md) is what the front-end asked for; the card is what came out. Where the first two
differ by more than the tolerance the front-end is wrong, where the last two differ in any bit the
back-end or the card. What is drawn at random differs from run to run. An operator outside of
torch.compile is judged at the first call of each of its programs; what runs on the CPU is not.
"""

from __future__ import annotations

import contextlib
import copy
import operator
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._pytorch import pytree
from .._pytorch.dispatch import OpOverload
from .._pytorch.fx import arguments_of
from ..compile import backend as driver
from ..compile import segment_launch
from ..compile.backend import Runnable, Settings, Values
from ..eager import operator_program, run_on_cpu
from ..sendnn.reference import OnHost, to_host
from . import user_script
from .arguments import ArgumentParser, write_lines

_SUMMARY = (__doc__ or "").partition("\n")[0]


@dataclass
class Verdict:
    """What became of one call of a graph or of an operator."""

    what: str  # number of the graph, or "eager"
    operators: str
    card_equals_definition: bool
    definition_error: float  # largest difference to PyTorch
    definition_is_close: bool

    @property
    def wrong(self) -> str:
        sides = [] if self.definition_is_close else ["front-end"]
        if not self.card_equals_definition:
            sides.append("back-end or card")
        return " and ".join(sides) or "nothing"


class Bisect:
    """Stands in for the compiler's driver and judges what its programs compute."""

    def __init__(self, atol: float, rtol: float):
        self.atol, self.rtol = atol, rtol
        self.verdicts: list[Verdict] = []
        self.original = driver.compile_aten
        self.find = operator_program.Operator.find
        self.judged: set[segment_launch.Launch] = set()
        self.busy = False  # computing what a verdict needs

    def compile(
        self, gm: torch.fx.GraphModule, example_inputs: Values, settings: Settings | None = None
    ) -> Runnable:
        asked = copy.deepcopy(gm)  # passes and lowerings edit the graph
        run = self.original(gm, example_inputs, settings)

        names = [
            str(n.target).removeprefix("aten.").split(".")[0]
            for n in gm.graph.nodes
            if n.op == "call_function" and n.target is not operator.getitem
        ]
        inputs = asked.graph.find_nodes(op="placeholder")
        copies = asked.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
        targets = [arguments_of(copy)[0] for copy in copies]
        changed = [inputs.index(target) for target in targets if target in inputs]

        def checked(args: list[Any]) -> list[Any]:
            with self.judging():
                again = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
                by_cpu, given = [to_host(a) for a in args], list(args)
                expected = [*OnHost(asked).run(*by_cpu), *(by_cpu[i] for i in changed)]
                with interpreting():
                    defined = [*run(list(again)), *(again[i] for i in changed)]
                results = run(args)
            judged = [*results, *(given[i] for i in changed)]
            number = sum(v.what != "eager" for v in self.verdicts)
            self.judge(str(number), ", ".join(dict.fromkeys(names)), expected, defined, judged)
            return results

        checked._boxed_call = True  # type: ignore[attr-defined]
        return checked

    def find_judged(
        self, operator: operator_program.Operator, args: Values, kwargs: Mapping[str, Any]
    ) -> tuple[Any, list[torch.Tensor], str | None]:
        """Stands in for Operator.find: each program is judged when it is first called."""
        program, tensors, reason = self.find(operator, args, kwargs)
        if not isinstance(program, operator_program.OperatorProgram) or self.busy:
            return program, tensors, reason
        if program.launch not in self.judged:
            self.judged.add(program.launch)
            return JudgedOperator(self, operator.op, args, kwargs, program), tensors, reason
        return program, tensors, reason

    @contextlib.contextmanager
    def judging(self) -> Iterator[None]:
        self.busy = True
        try:
            yield
        finally:
            self.busy = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        driver.compile_aten = self.compile
        operator_program.Operator.find = lambda *call: self.find_judged(*call)  # type: ignore[method-assign]
        operator_program.Operator.grows = False  # a program of each call
        try:
            yield
        finally:
            driver.compile_aten = self.original
            operator_program.Operator.find = self.find  # type: ignore[method-assign]
            operator_program.Operator.grows = True

    def judge(
        self, what: str, operators: str, expected: Values, defined: Values, results: Values
    ) -> None:
        triples = [
            [to_host(value) for value in values]
            for values in zip(expected, defined, results, strict=True)
            if isinstance(values[0], torch.Tensor)
        ]
        errors = [_largest_difference(e, d) for e, d, _r in triples]
        verdict = Verdict(
            what,
            operators,
            all(torch.allclose(d, r, 0, 0, equal_nan=True) for _e, d, r in triples),
            max(errors, default=0.0),
            all(torch.allclose(e, d.to(e.dtype), self.rtol, self.atol, equal_nan=True)
                for e, d, _r in triples),
        )  # fmt: skip
        self.verdicts.append(verdict)


class JudgedOperator:
    """A program of one operator for the call that is judged."""

    def __init__(
        self,
        bisect: Bisect,
        op: OpOverload,
        args: Values,
        kwargs: Mapping[str, Any],
        program: operator_program.OperatorProgram,
    ) -> None:
        self.bisect, self.op, self.program = bisect, op, program
        self.args, self.kwargs = args, kwargs

    @property
    def writes_self(self) -> bool:
        return self.program.writes_self

    def remember(self, tensors: Sequence[torch.Tensor], written: Any = None) -> None:
        """The next call comes through Python, too, and finds the program itself."""

    def _interpret(self, tensors: Sequence[torch.Tensor], card: int) -> Any:
        """The definition's results. What it writes in place is put back."""
        before = tensors[0].clone() if self.writes_self else None
        with interpreting():
            results = self.program.run(tensors, card)
        if before is None:
            return results
        kept = results.clone()
        tensors[0].copy_(before)
        return kept

    def run(self, tensors: Sequence[torch.Tensor], card: int) -> Any:
        with self.bisect.judging():
            args, kwargs = pytree.tree_map(to_host, (list(self.args), dict(self.kwargs)))
            expected = run_on_cpu.call(self.op, args, kwargs)
            defined = self._interpret(tensors, card)
            results = self.program.run(tensors, card)
        name = str(self.op).removeprefix("aten.")
        self.bisect.judge("eager", name, *map(_as_list, (expected, defined, results)))
        return results


def _as_list(results: object) -> list[object]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    difference = (a.double() - b.double()).abs()
    return difference.nan_to_num(0.0).max().item() if difference.numel() else 0.0


@contextlib.contextmanager
def interpreting() -> Iterator[None]:
    """Segments of the card run by the interpreter of bundles."""
    launch = segment_launch.Launch.__call__
    segment_launch.Launch.__call__ = segment_launch.Launch.interpret  # type: ignore[method-assign]
    try:
        yield
    finally:
        segment_launch.Launch.__call__ = launch  # type: ignore[method-assign]


def table(verdicts: list[Verdict]) -> str:
    lines = ["graph  card = definition  definition - PyTorch  wrong             operators"]
    lines += [
        f"{v.what:>5s}  {'yes' if v.card_equals_definition else 'NO':17s}  "
        f"{v.definition_error:20.3g}  {v.wrong:16s}  {v.operators[:60]}"
        for v in verdicts
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser("spyre-bisect", description=_SUMMARY)
    parser.add_argument("--atol", type=float, default=0.05, help="tolerance against PyTorch")
    parser.add_argument("--rtol", type=float, default=0.05)
    user_script.add_to(parser)
    given = parser.parse_args(arguments)
    if not user_script.is_program(parser.prog, given.script):
        return 2
    bisect = Bisect(given.atol, given.rtol)
    try:
        with bisect.installed():
            user_script.run(given.script, given.arguments)
    finally:
        code = write_lines(parser.prog, [table(bisect.verdicts)])
    return 1 if any(v.wrong != "nothing" for v in bisect.verdicts) else code


if __name__ == "__main__":
    # Under its own name, so that it is the driver of the compiler that is replaced.
    from torch_spyre.debug.bisect import main as run

    sys.exit(run())
