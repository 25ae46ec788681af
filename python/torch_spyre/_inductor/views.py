# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.planned.views`: the same module."""

import sys

from ..compile.planned import views

sys.modules[__name__] = views
