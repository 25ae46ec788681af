# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.decompositions`: the same module."""

import sys

from ..compile import decompositions

sys.modules[__name__] = decompositions
