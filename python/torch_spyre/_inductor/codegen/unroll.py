# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.unroll`: the same module."""

import sys

from ...compile import unroll

sys.modules[__name__] = unroll
