# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile

import pytest
import torch
import torch_spyre  # noqa: F401

_cache = tempfile.TemporaryDirectory(prefix="spyre-cache-")
os.environ.setdefault("SPYRE_CACHE_DIR", _cache.name)  # never the user's


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def run_python():
    """Runs a program in a fresh interpreter; returns its output, asserts that it succeeds."""

    def run(source, **environment):
        done = subprocess.run(
            [sys.executable, "-c", source],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done

    return run
