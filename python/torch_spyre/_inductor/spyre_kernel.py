# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.planned.spyre_kernel`: the same module."""

import sys

from ..compile.planned import spyre_kernel

sys.modules[__name__] = spyre_kernel
