# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.planned.unroll`: the same module."""

import sys

from ...compile.planned import unroll

sys.modules[__name__] = unroll
