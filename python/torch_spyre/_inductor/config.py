# SPDX-License-Identifier: Apache-2.0
"""Settings of the compiler, patchable like those of every PyTorch compiler:

    with torch_spyre._inductor.config.patch(sencores=4, lx_planning=False): ...

One attribute a row of include/spyre/setting.def; its value is that of the row's environment
variable when this module is imported, or else the row's default. Programs that exist already stay
as they are. The compiler checks values: it raises torch_spyre.Unsupported with the rule.
"""

import os
import sys

from torch.utils._config_module import install_config_module

from .. import _C


def _typed(text: str, rule: str):
    """The value as Python writes it; text that breaks the rule is left to the compiler."""
    if rule == "0 or 1":
        return {"0": False, "1": True}.get(text, text)
    if rule.startswith("a whole number") and text.isdecimal():
        return int(text)
    if rule.startswith("a number") and text.replace(".", "", 1).isdecimal():
        return float(text)
    return text


def _initial(variable: str, default: str, rule: str):
    return _typed((os.environ.get(variable) if variable else None) or default, rule)


globals().update(
    {
        name: _initial(variable, default, rule)
        for name, variable, default, rule, _summary in _C.settings()
    }
)
install_config_module(sys.modules[__name__])
