# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.customops`: the same module."""

import sys

from ..compile import customops

sys.modules[__name__] = customops
