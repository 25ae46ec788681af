# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.constants`: the same module."""

import sys

from .. import constants

sys.modules[__name__] = constants
