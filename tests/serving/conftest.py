# SPDX-License-Identifier: Apache-2.0
import pytest
from environment import ROOT, run


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A small Llama with random weights."""
    folder = tmp_path_factory.mktemp("model")
    run(ROOT / "examples/serve_model.py", folder)
    return folder
