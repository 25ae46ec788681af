# SPDX-License-Identifier: Apache-2.0
"""Settings of the compiler, patchable like those of every PyTorch compiler:

    with torch_spyre.config.patch(sencores=4, lx_planning=False): ...

One attribute a row of include/spyre/setting.def; its value is that of the row's environment
variable when this module is imported, or else the row's default. Graphs that are compiled already
stay as they are; operators called one by one take the settings of each call. The compiler checks
values: it raises torch_spyre.Unsupported with the rule.
"""

import os
import sys
import warnings
from typing import TYPE_CHECKING

from . import _C
from ._pytorch.settings import Config, install_config_module, share

if TYPE_CHECKING:
    from ._pytorch.settings import get_config_copy as get_config_copy
    from ._pytorch.settings import patch as patch

_FLAGS = {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
_NEWER_NAMES = {"SPYRE_INDUCTOR_MEMORY_PLAN": "HBM_POOL_PLANNING"}


def _typed(text: str, rule: str) -> bool | int | float | str:
    """The value as Python writes it; text that breaks the rule is left to the compiler."""
    if rule == "0 or 1":
        return _FLAGS.get(text.lower(), text)
    if rule.startswith("a whole number") and text.isdecimal():
        return int(text)
    if rule.startswith("a number") and text.replace(".", "", 1).isdecimal():
        return float(text)
    return text


def _initial(variable: str, default: str, rule: str) -> bool | int | float | str:
    text = os.environ.get(variable) or os.environ.get(_NEWER_NAMES.get(variable, ""))
    return _typed(text or default, rule)


def _count(variable: str, default: int) -> int:
    text = os.environ.get(variable) or str(default)
    if text.isdecimal() and int(text) > 0:
        return int(text)
    warnings.warn(f"{variable}={text}: expected a whole number from 1 on", stacklevel=2)
    return default


_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _bytes(variable: str, default: str) -> int:
    text = os.environ.get(variable) or default
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1] in _UNITS else (text, 1)
    if number.isdecimal():
        return int(number) * unit
    warnings.warn(f"{variable}={text}: expected bytes like 64M", stacklevel=2)
    return _bytes("", default)


def _one_of(variable: str, default: str, words: tuple[str, ...]) -> str:
    text = os.environ.get(variable) or default
    if text in words:
        return text
    warnings.warn(f"{variable}={text}: expected one of {', '.join(words)}", stacklevel=2)
    return default


globals().update(
    {
        name: _initial(variable, default, rule)
        for name, variable, default, rule, _summary in _C.settings()
    }
)
hbm_pool_planning: bool = Config(alias=f"{__name__}.memory_plan")  # torch-spyre's newer name
# Of the Python side, which no program depends on.
symbolic_programs: bool = True  # one program for all buckets of a dim, where that can be
max_buckets: int = _count("MAX_BUCKETS", 32)  # of a dim that torch._dynamo.mark_dynamic() bounds
max_combined_buckets: int = 256  # of two such dims whose sizes one program takes
min_default_granularity: int = _count("MIN_DEFAULT_GRANULARITY", 4)  # of its buckets, without min=
eager_bytes: int = _bytes("SPYRE_EAGER_MEMORY", "256M")  # of programs of single operators
graph_bytes: int = _bytes("SPYRE_GRAPH_MEMORY", "1G")  # of programs of compiled graphs
report_bytes: int = _bytes("SPYRE_REPORT_MEMORY", "16M")  # of torch_spyre.compile_reports()
cost_model: str = os.environ.get("SPYRE_DUMP_COST", "")  # "1": predicted times, on stderr
fallback: str = _one_of("SPYRE_FALLBACK", "warn", ("warn", "error", "silent"))  # _fallback.py
spyre_instrument_ops: list[str] = []  # operators whose kernels are counted: profiling.py
log_passes: str = os.environ.get("SPYRE_LOG_PASSES", "")  # logging_config.set_log_passes()

install_config_module(sys.modules[__name__])
share(sys.modules[__name__])
