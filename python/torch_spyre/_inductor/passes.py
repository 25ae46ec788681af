# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.passes`: the same module."""

import sys

from .. import passes

sys.modules[__name__] = passes
