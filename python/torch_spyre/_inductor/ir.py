# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.planned`: the same module."""

import sys

from ..compile import planned

sys.modules[__name__] = planned
