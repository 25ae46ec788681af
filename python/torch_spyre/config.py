# SPDX-License-Identifier: Apache-2.0
"""Settings of the compiler, patchable like those of every PyTorch compiler:

    with torch_spyre.config.patch(sencores=4, lx_planning=False): ...

One attribute a row of include/spyre/setting.def; its value is that of the row's environment
variable when this module is imported, or else the row's default. Graphs that are compiled already
stay as they are; operators called one by one take the settings of each call. A value that breaks
the rule of its attribute is a ValueError where it is assigned; a variable that does is one where
the device is used first.
"""

import os
import sys
import typing

from . import _C, environment, setting_rules
from ._pytorch.settings import Config, install_config_module, share

if typing.TYPE_CHECKING:  # the name itself would be a setting
    from ._pytorch.settings import get_config_copy as get_config_copy
    from ._pytorch.settings import patch as patch

_NEWER_NAMES = {"SPYRE_INDUCTOR_MEMORY_PLAN": "HBM_POOL_PLANNING"}


def _typed(text: str, rule: str) -> bool | int | float | str:
    """The value as Python writes it."""
    if rule == "0 or 1":
        flag = environment.FLAG.parse(text)
        return text if flag is None else bool(flag)
    if rule.startswith("a whole number") and text.isdecimal():
        return int(text)
    if rule.startswith("a number") and text.replace(".", "", 1).isdecimal():
        return float(text)
    return text


def _initial(name: str, variable: str, default: str, rule: str) -> bool | int | float | str:
    text = os.environ.get(variable) or os.environ.get(_NEWER_NAMES.get(variable, ""))
    value = _typed(text or default, rule)
    problem = setting_rules.problem(name, value)
    if problem is None:
        return value
    environment.remember(f"{variable}={text}: {problem}")
    return _typed(default, rule)


globals().update(
    {
        name: _initial(name, variable, default, rule)
        for name, variable, default, rule, _summary in _C.settings()
    }
)
hbm_pool_planning: bool = Config(alias=f"{__name__}.memory_plan")  # torch-spyre's newer name
# Of the Python side, which no program depends on.
symbolic_programs: bool = True  # one program for all buckets of a dim, where that can be
max_buckets: int = environment.read("MAX_BUCKETS", "32", environment.whole_number(1))  # of a dim
# that torch._dynamo.mark_dynamic() bounds
max_combined_buckets: int = 256  # of two such dims whose sizes one program takes
min_default_granularity: int = environment.read(  # of its buckets, without min=
    "MIN_DEFAULT_GRANULARITY", "4", environment.whole_number(1)
)
eager_bytes: int = environment.read(  # of programs of single operators
    "SPYRE_EAGER_MEMORY", "256M", environment.BYTES
)
graph_bytes: int = environment.read(  # of programs of compiled graphs
    "SPYRE_GRAPH_MEMORY", "1G", environment.BYTES
)
report_bytes: int = environment.read(  # of torch_spyre.compile_reports()
    "SPYRE_REPORT_MEMORY", "16M", environment.BYTES
)
cost_model: str = os.environ.get("SPYRE_DUMP_COST", "")  # "1": predicted times, on stderr
fallback: str = environment.read(  # _fallback.py
    "SPYRE_FALLBACK", "warn", environment.one_of("warn", "error", "silent")
)
spyre_instrument_ops: list[str] = []  # operators whose kernels are counted: profiling.py
log_passes: str = os.environ.get("SPYRE_LOG_PASSES", "")  # logging_config.set_log_passes()

install_config_module(sys.modules[__name__])
share(sys.modules[__name__], setting_rules.check)
