# SPDX-License-Identifier: Apache-2.0
"""What is known of an operator's calls that differ by their numbers alone."""

from __future__ import annotations

from typing import Any

from ..compile.dynamic_sizes.grown_arguments import keep

MOST_NUMBERS = 2  # programs of an operator that is taken apart, by its numbers


class NumberedCalls:
    """Calls of an operator that is taken apart, which differ by their numbers alone."""

    def __init__(self) -> None:
        self.programs = 0  # of the operator as a whole, of which each is for the numbers of a call
        self.runs = 0  # of its parts one by one
        self.compiling = 0  # of these those that have made programs
        self.is_by_value = False  # the parts have no programs for all numbers, either

    @property
    def are_many(self) -> bool:
        return self.programs >= MOST_NUMBERS and not self.is_by_value

    def note(self, has_compiled: bool) -> None:
        """A run of the parts: the first ones compile what they have in common, and so do those of
        numbers that are cases of their own."""
        self.runs += 1
        self.compiling += has_compiled
        self.is_by_value = self.compiling > max(MOST_NUMBERS, self.runs // 2)


class Refusals:
    """Why calls have no program that differ by their numbers alone: once two have been refused in
    the same words, all are whose numbers are of the same kinds."""

    def __init__(self) -> None:
        self.reasons: dict[Any, list[str]] = {}  # by all but the numbers

    def of(self, others: Any) -> str | None:
        first, second = (*self.reasons.get(others, ()), "", "")[:2]
        return first if first and first == second else None

    def note(self, others: Any, reason: str) -> None:
        keep(self.reasons, others, [*self.reasons.pop(others, [])[-1:], reason])
