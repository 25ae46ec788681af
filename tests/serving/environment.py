# SPDX-License-Identifier: Apache-2.0
"""The environment of `make serve-setup`, and programs in it; SERVE names another one."""

import os
import pathlib
import socket
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
SERVE = pathlib.Path(os.environ.get("SERVE", ROOT / "build/serve"))
PYTHON = SERVE / "bin/python"


def need() -> None:
    """Skips the tests of a file, loudly, where the environment is missing."""
    import pytest

    if not next(SERVE.glob("lib/*/site-packages/vllm"), None):
        why = f"NO SERVING TESTS: {SERVE} has no vLLM: make serve-setup"
        pytest.skip(why, allow_module_level=True)


def run(*command, seconds=900, **variables):
    """A program of the environment's Python, which must end well."""
    done = subprocess.run(
        [PYTHON, *command], capture_output=True, text=True, timeout=seconds,
        env={**os.environ, **variables},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
