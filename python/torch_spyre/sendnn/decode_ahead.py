# SPDX-License-Identifier: Apache-2.0
"""Decode steps that the card begins before the program asks for them.

Between two decode steps a server's Python takes about as long as the step itself, and the card
would wait. Most of what the next step is given can be told beforehand: sequences are one token
longer, and where tokens are chosen greedily the next ones are the places of the largest logits. So
when a step has ended, and the two before it have been told rightly, the card is given the next one
at once. When the program calls, all inputs are compared with what was told: if they are equal, the
results are those of the call; otherwise they are dropped and nothing has happened, since keys and
values enter the KV cache when a call has been made (paged_calls.py).

What becomes of an input from step to step is learned: it stays, or grows by one (each element for
itself), or is the tokens of the last results. After a wrong guess the next 2, 4, .. calls are not
looked at, up to 64: a program that samples pays for next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from .._pytorch.dispatch import outside_inference_mode
from . import block_tables, environment_variables, paged, recording, resident

_SMALL = 1 << 14  # elements of an input that is compared by value
_RIGHT = 2  # guesses in turn before a step is begun
_MOST_SKIPPED = 64
_TOKENS = "tokens"


@dataclass
class Step:
    """Inputs of a decode step, and its results if it has been begun."""

    caches: list[torch.Tensor]
    read: block_tables.Reads | None
    batch: int  # sequences that its program has
    results: list[Any] | None = None
    card_begin: float | None = None  # recording.card_seconds() before it was begun

    def blocks(self) -> int:
        """Of the KV cache, that each sequence reads."""
        return self.read.rows.shape[1] if self.read else 0


class Card(Protocol):
    """How the rewritten graph is computed (backend.OnCard)."""

    def move(self, args: Sequence[Any]) -> list[Any]:
        """Its inputs on the card."""

    def compute(self, moved: Sequence[Any]) -> Sequence[Any]:
        """Its results, which may be under way."""


class Calls(Protocol):
    """What a graph with paged attention knows of its calls (paged_calls.PagedCalls)."""

    plan: paged.Plan
    cache_inputs: list[int]

    def step(self, args: Sequence[Any], caches: list[torch.Tensor] | None = None) -> Step:
        """Not begun; `caches` on the card if they are known. ValueError for slots that may not
        be."""

    def values(self, args: Sequence[Any], step: Step) -> list[Any]:
        """Inputs of the rewritten graph, those of plan.kept."""

    def fit(self, index: int, value: Any, step: Step) -> Any:
        """Input `index` as large as the step's program has it."""


@dataclass
class _Told:
    inputs: dict[int, Any]  # as the next call should have them, but for tokens and what stays
    step: Step
    values: list[Any]  # inputs of the rewritten graph; on the card if the step will be begun
    stores: int  # resident.stores() when it was told


class Ahead:
    """Of one graph whose calls have one token a sequence."""

    def __init__(self, calls: Calls):
        self.calls = calls
        self.rules: dict[int, Any] = {}  # by input: what is added, or _TOKENS
        self.same: resident.Same | None = None  # large inputs of the last call
        self.is_same = False  # this call has the same
        self.last: dict[int, torch.Tensor] = {}  # small inputs of the last call
        self.tokens: torch.Tensor | None = None  # that its results name
        self.told: _Told | None = None
        self.right = 0  # guesses in turn
        self.wrong = 0
        self.skipped = 0  # calls that will not be looked at

    def take(self, args: Sequence[Any]) -> Step | None:
        """The step with these inputs, if it has been begun."""
        told, self.told = self.told, None
        self.is_same = self.same is not None and self.same.holds(args)
        if told is None:
            return None
        is_right = self.is_same and told.stores == resident.stores()
        if is_right and all(_are_equal(value, args[i]) for i, value in told.inputs.items()):
            self.right, self.wrong = self.right + 1, 0
            return told.step if told.step.results is not None else None
        self._miss()
        return None

    def _miss(self) -> None:
        self.right, self.wrong = 0, self.wrong + 1
        self.skipped = min(1 << self.wrong, _MOST_SKIPPED)

    def look_at(self, card: Card, args: Sequence[Any], step: Step) -> None:
        """Learns from a call, whose step the card computes meanwhile, and tells the next one but
        for its tokens."""
        if self.skipped:
            self.skipped -= 1
            self.last, self.tokens, self.same = {}, None, None
            return
        if not self.is_same or self.same is None:
            large = [i for i, a in enumerate(args)
                     if isinstance(a, torch.Tensor) and not _is_small(a)]  # fmt: skip
            self.same = resident.Same(args, large)
        rest = {*range(len(args))} - {*self.same.places}
        small = {i: args[i].clone() for i in rest if isinstance(args[i], torch.Tensor)}
        if not _are_alike(small, self.last):
            self.rules = {}
        elif self._learns(small):
            self.told = self._tell(card, args, step, small)
        else:
            self._miss()
        self.last = small

    def begin(self, card: Card, logits: Any) -> None:
        """Takes the tokens of the call's first result, and begins the step that was told."""
        if not self.last or not isinstance(logits, torch.Tensor) or logits.dim() < 2:
            return
        self.tokens = _places_of_largest(logits.detach()).flatten()
        told = self.told
        if told is None:
            return
        for i in self._places():
            told.inputs[i] = self.tokens.view_as(told.inputs[i])
        if self.right < _RIGHT:
            return
        told.step.card_begin = recording.card_seconds()
        try:
            for i in self._places():
                tokens = self.calls.fit(i, told.inputs[i], told.step)
                told.values[self.calls.plan.kept.index(i)] = _moved(tokens)
            told.step.results = list(card.compute(told.values))
        except torch.OutOfMemoryError as refused:
            environment_variables.log.debug("no step is begun ahead: %s", refused)

    def _places(self) -> list[int]:
        """Inputs that are tokens."""
        return [i for i, rule in self.rules.items() if rule is _TOKENS]

    def _learns(self, small: dict[int, torch.Tensor]) -> bool:
        """The rules of all small inputs from those of the last call; whether all are known."""
        for i, now in small.items():
            if self._are_tokens(i, now):
                self.rules[i] = _TOKENS
            elif now.dtype in (torch.int64, torch.int32):
                more = now - self.last[i]
                if ((more == 0) | (more == 1)).all():
                    self.rules[i] = more
            elif torch.equal(now, self.last[i]):
                self.rules[i] = None
            else:
                self.rules.pop(i, None)
        return small.keys() <= self.rules.keys()

    def _are_tokens(self, index: int, value: torch.Tensor) -> bool:
        plan, tokens = self.calls.plan, self.tokens
        return (
            tokens is not None
            and index not in (plan.slot_mapping, *plan.metadata.values())
            and (value.dtype, value.numel()) == (tokens.dtype, tokens.numel())
            and torch.equal(value.flatten(), tokens)
        )

    def _tell(
        self, card: Card, args: Sequence[Any], step: Step, small: dict[int, torch.Tensor]
    ) -> _Told | None:
        later = {i: self._later(i, value) for i, value in small.items()}
        plan = self.calls.plan
        now, then = (of[plan.slot_mapping] // plan.form.block_size for of in (small, later))
        begins_block = not torch.equal(now, then)  # and which one is not known
        if begins_block or self._may_change(args):
            return None
        given = list(args)
        for i, value in later.items():
            given[i] = value
        try:
            next_step = self.calls.step(given, step.caches)
        except ValueError as refused:
            environment_variables.log.debug("no step is begun ahead: %s", refused)
            return None
        values = self.calls.values(given, next_step)
        if self.right >= _RIGHT:
            values = card.move(values)
        numbers = {i: a for i, a in enumerate(args) if not isinstance(a, torch.Tensor)}
        return _Told(later | numbers, next_step, values, resident.stores())

    def _later(self, index: int, small: torch.Tensor) -> torch.Tensor:
        """What the next call should have; of tokens, those of this one."""
        rule = self.rules[index]
        return small + rule if isinstance(rule, torch.Tensor) else small

    def _may_change(self, args: Sequence[Any]) -> bool:
        """Whether a large input counts no changes, and is no cache, whose changes are stores."""
        assert self.same
        uncounted = {*self.same.places} - {*self.same.counted}
        return not uncounted <= {*self.calls.cache_inputs}


def _places_of_largest(logits: torch.Tensor) -> torch.Tensor:
    if logits.dtype is not torch.float32:
        return logits.argmax(-1)
    return torch.from_numpy(logits.numpy().argmax(-1))  # by vectors, which PyTorch does without


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    with outside_inference_mode():
        return tensor.to("spyre")


def _is_small(value: Any) -> bool:
    return type(value) is torch.Tensor and value.device.type == "cpu" and value.numel() <= _SMALL


def _are_alike(a: dict[int, torch.Tensor], b: dict[int, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        (t.shape, t.dtype) == (b[i].shape, b[i].dtype) for i, t in a.items()
    )


def _are_equal(told: Any, given: Any) -> bool:
    if not isinstance(told, torch.Tensor):
        return bool(told == given)
    return (
        _is_small(given)
        and (told.dtype, told.shape) == (given.dtype, given.shape)
        and torch.equal(told, given)
    )
