# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import pytest
import torch
import torch_spyre  # noqa: F401


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
