# SPDX-License-Identifier: Apache-2.0
"""Variables of the environment that Python alone reads, and the rules of their values.

A rule says what text of a variable means, and which values the setting of that name may have. A
variable that is read at import and breaks its rule is remembered; the first use of the device
raises what check() says of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_WORDS = {"": False, "0": False, "false": False, "no": False, "off": False,
          "1": True, "true": True, "yes": True, "on": True}  # fmt: skip
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Flags that are read when they are needed, maybe much later.
_FLAGS = ("DUMP_SPYRE_CODE", "SPYRE_DUMP_COST", "SPYRE_KERNEL_FILES", "TORCH_SPYRE_DOWNCAST_WARN",
          "TORCH_SPYRE_FFDC")  # fmt: skip
_problems: list[str] = []


class VariableError(RuntimeError, ValueError):
    """A variable of the environment has a text that its rule forbids. A RuntimeError, as what the
    runtime says of its own variables."""


@dataclass(frozen=True)
class Rule:
    """What a value must be, in words, of a variable's text and of Python's values. `parse` gives
    the value of a text, or None."""

    words: str
    parse: Callable[[str], Any]
    obeys: Callable[[Any], bool]

    def of_text(self, text: str) -> Any:
        value = self.parse(text)
        return value if value is not None and self.obeys(value) else None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def whole_number(least: int) -> Rule:
    return Rule(
        f"a whole number from {least} on",
        lambda text: int(text) if text.isdecimal() else None,
        lambda value: _is_int(value) and value >= least,
    )


def _bytes(text: str) -> int | None:
    unit = _UNITS.get(text[-1:])
    number = text[:-1] if unit else text
    return int(number) * (unit or 1) if number.isdecimal() else None


BYTES = Rule("bytes like 64M", _bytes, lambda value: _is_int(value) and value >= 0)
FLAG = Rule(
    "0 or 1", lambda text: _WORDS.get(text.lower()), lambda value: isinstance(value, (bool, str))
)
TEXT = Rule("text", lambda text: text, lambda value: isinstance(value, str))


def one_of(*words: str) -> Rule:
    return Rule(f"one of {', '.join(words)}", lambda text: text, lambda value: value in words)


def read(variable: str, default: str, rule: Rule) -> Any:
    """The value of a variable, or of the default; a text that breaks the rule is the default, and
    remembered."""
    value = rule.of_text(os.environ.get(variable) or default)
    if value is None:
        _problems.append(_problem(variable, os.environ[variable], rule))
        value = rule.of_text(default)
    return value


def _problem(variable: str, text: str, rule: Rule) -> str:
    return f"{variable}={text}: expected {rule.words}"


def remember(problem: str) -> None:
    """A problem of a variable that somebody else has found."""
    _problems.append(problem)


def check() -> None:
    """Raises: VariableError for a variable whose text breaks its rule, which it names."""
    for problem in _problems:
        raise VariableError(problem)
    for variable in _FLAGS:
        flag(variable)


def flag(variable: str) -> bool:
    """Raises: VariableError for a text that is neither on nor off."""
    return is_on(variable, os.environ.get(variable, ""))


def is_on(variable: str, text: str | bool) -> bool:
    """What the text of a variable says.

    Raises: VariableError for a text that is neither on nor off.
    """
    value = _WORDS.get(str(text).lower())
    if value is None:
        raise VariableError(_problem(variable, str(text), FLAG))
    return value


def directory(variable: str) -> str | None:
    """A directory to write to, which is made when it is missing."""
    path = os.environ.get(variable)
    if not path:
        return None
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise OSError(f"{variable}={path}: cannot make directory: {error.strerror}") from None
    return path
