# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.hints.for_each_tile`: the same module."""

import sys

from ...compile.hints import for_each_tile

sys.modules[__name__] = for_each_tile
