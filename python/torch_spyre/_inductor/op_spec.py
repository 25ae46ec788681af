# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's name of `torch_spyre.compile.planned.op_spec`: the same module."""

import sys

from ..compile.planned import op_spec

sys.modules[__name__] = op_spec
