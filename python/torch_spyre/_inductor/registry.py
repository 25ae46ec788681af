# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.registry`: the same module."""

import sys

from .. import registry

sys.modules[__name__] = registry
