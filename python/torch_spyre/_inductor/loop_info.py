# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.planned.loop_info`: the same module."""

import sys

from ..compile.planned import loop_info

sys.modules[__name__] = loop_info
