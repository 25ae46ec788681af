# SPDX-License-Identifier: Apache-2.0
"""The version of the stack that stands in."""

from torch_spyre import __version__

__all__ = ["__version__"]
