# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.planned.planned_layouts`: the same module."""

import sys

from ..compile.planned import planned_layouts

sys.modules[__name__] = planned_layouts
