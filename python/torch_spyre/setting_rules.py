# SPDX-License-Identifier: Apache-2.0
"""The rules of torch_spyre.config's attributes: those of include/spyre/setting.def, which the
compiler checks, and those of the attributes that Python alone reads."""

from __future__ import annotations

from . import _C
from .environment import BYTES, FLAG, TEXT, Rule, one_of, whole_number

_SWITCH = Rule("True or False", lambda _text: None, lambda value: isinstance(value, bool))
_NAMES = Rule(
    "a list of operators by name",
    lambda _text: None,
    lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
)
_PYTHON = {
    "symbolic_programs": _SWITCH,
    "max_buckets": whole_number(1),
    "max_combined_buckets": whole_number(1),
    "min_default_granularity": whole_number(1),
    "eager_bytes": BYTES,
    "graph_bytes": BYTES,
    "report_bytes": BYTES,
    "cost_model": FLAG,
    "fallback": one_of("warn", "error", "silent"),
    "spyre_instrument_ops": _NAMES,
    "log_passes": TEXT,
}
_NEWER_NAMES = {"hbm_pool_planning": "memory_plan"}
_COMPILER = {name: rule for name, _variable, _default, rule, _summary in _C.settings()}


def text_of(value: object) -> str:
    """A value as the compiler takes it."""
    return str(int(value) if isinstance(value, bool) else value)


def problem(name: str, value: object) -> str | None:
    """What the rule of an attribute of torch_spyre.config says of a value; None: nothing."""
    rule = _PYTHON.get(name)
    if rule is not None and not rule.obeys(value):
        return f"expected {rule.words}"
    if name not in _COMPILER:
        return None
    try:
        _C.check_settings({name: text_of(value)})
    except _C.Unsupported:
        return f"expected {_COMPILER[name]}"
    except ValueError as error:  # of the names in a list
        return str(error)
    return None


def check(name: str, value: object) -> None:
    """Raises: ValueError for a value that the attribute of that name cannot have."""
    found = problem(_NEWER_NAMES.get(name, name), value)
    if found is not None:
        raise ValueError(f"torch_spyre.config.{name}={value!r}: {found}")
