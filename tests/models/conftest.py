# SPDX-License-Identifier: Apache-2.0
import os
import tempfile

import torch_spyre  # noqa: F401

_cache = tempfile.TemporaryDirectory(prefix="spyre-cache-")
os.environ.setdefault("SPYRE_CACHE_DIR", _cache.name)  # never the user's
