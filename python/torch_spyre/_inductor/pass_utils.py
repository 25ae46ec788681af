# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.planned.pass_utils`: the same module."""

import sys

from ..compile.planned import pass_utils

sys.modules[__name__] = pass_utils
