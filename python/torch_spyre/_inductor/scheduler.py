# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.planned.counted_loops`: the same module."""

import sys

from ..compile.planned import counted_loops

sys.modules[__name__] = counted_loops
