# SPDX-License-Identifier: Apache-2.0
import pytest
from environment import ROOT, run


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A small Llama with random weights."""
    folder = tmp_path_factory.mktemp("model")
    run(ROOT / "examples/serve_model.py", folder)
    return folder


@pytest.fixture(scope="session")
def eight_bits(model, tmp_path_factory):
    """The same with weights of eight bits."""
    folder = tmp_path_factory.mktemp("eight bits")
    run(ROOT / "tests/serving/small_fp8.py", model, folder)
    return folder
