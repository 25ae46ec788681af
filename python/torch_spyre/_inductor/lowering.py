# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.lowering`: the same module."""

import sys

from ..compile import lowering

sys.modules[__name__] = lowering
