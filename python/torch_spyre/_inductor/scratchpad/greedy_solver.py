# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.planned.scratchpad`: the same module."""

import sys

from ...compile.planned import scratchpad

sys.modules[__name__] = scratchpad
