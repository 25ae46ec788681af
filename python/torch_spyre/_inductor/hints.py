# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.hints`: the same module."""

import sys

from .. import hints

sys.modules[__name__] = hints
