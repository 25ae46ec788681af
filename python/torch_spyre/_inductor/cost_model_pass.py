# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.debug.cost_report`: the same module."""

import sys

from ..debug import cost_report

sys.modules[__name__] = cost_report
