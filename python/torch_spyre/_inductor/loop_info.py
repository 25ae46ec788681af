# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.loop_info`: the same module."""

import sys

from ..compile import loop_info

sys.modules[__name__] = loop_info
