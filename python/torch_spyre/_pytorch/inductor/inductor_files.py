# SPDX-License-Identifier: Apache-2.0
"""Where Inductor keeps its files."""

from torch._inductor.runtime.cache_dir_utils import cache_dir

__all__ = ["cache_dir"]
