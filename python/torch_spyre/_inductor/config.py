# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.config`: the same module."""

import sys

from .. import config

sys.modules[__name__] = config
