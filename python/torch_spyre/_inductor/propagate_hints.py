# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.hints.dim_hints`: the same module."""

import sys

from ..compile.hints import dim_hints

sys.modules[__name__] = dim_hints
