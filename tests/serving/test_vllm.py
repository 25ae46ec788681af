# SPDX-License-Identifier: Apache-2.0
"""vLLM with the plugin sendnn-inference on the card. Needs the environment of `make serve-setup`.
Long: run by `make test-serving`."""

import json
import os
import signal
import subprocess
import time
import urllib.request

import environment
import pytest
from environment import PYTHON, ROOT, free_port, run
from safetensors.torch import load_file

environment.need()
NEAR = 0.05  # of log-probabilities: a tie
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def served(model, tmp_path_factory):
    """What offline.py found by backend."""
    folder, found = tmp_path_factory.mktemp("served"), {}
    for backend in ("sendnn", "eager"):
        out = folder / backend
        run(ROOT / "tests/serving/offline.py", model, backend, out)
        found[backend] = json.loads(out.read_text())
    return found


def part_at_a_tie(card, host):
    """Tokens are equal up to a place where both are as likely."""
    for ours, theirs, likely in zip(card["tokens"], host["tokens"], host["likely"], strict=True):
        parted = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b][:1]
        for place in parted:
            best = likely[place]
            assert str(ours[place]) in best, (place, ours, theirs)
            assert abs(best[str(ours[place])] - best[str(theirs[place])]) < NEAR


def test_tokens_are_those_of_the_cpu_or_part_at_a_tie(served):
    part_at_a_tie(served["sendnn"], served["eager"])


def test_a_model_with_an_operator_that_the_card_lacks(served, model, tmp_path):
    """It runs on the host, between programs that were compiled in warm-up."""
    run(ROOT / "tests/serving/offline.py", model, "sendnn", tmp_path / "out", "silu")
    found = json.loads((tmp_path / "out").read_text())
    assert set(found["host"]) == {"aten.silu.default"}
    assert found["compiled"] == found["warmed"]
    part_at_a_tie(found, served["eager"])


def test_the_prefix_cache_gives_the_same(served):
    assert served["sendnn"]["again"] == served["sendnn"]["tokens"][:3]


def test_nothing_is_compiled_after_warm_up_and_nothing_runs_on_the_host(served):
    card = served["sendnn"]
    assert card["compiled"] == card["warmed"] > 0
    assert card["refused"] == card["host"] == []


def test_a_decode_step_moves_weights_and_visited_blocks_only(served, model):
    """At most 1.1 times their bytes, modelled."""
    weights = load_file(model / "model.safetensors")
    read = sum(w.numel() * 2 for name, w in weights.items() if "embed" not in name)
    config = json.loads((model / "config.json").read_text())
    heads, layers = config["num_key_value_heads"], config["num_hidden_layers"]
    width = config["hidden_size"] // config["num_attention_heads"]
    blocks = 4 * 4 * 64 * heads * width * 2 * layers * 2
    assert read + blocks < served["sendnn"]["bytes"] < 1.1 * (read + blocks)


def test_a_model_of_eight_bits(eight_bits, tmp_path):
    """Nothing is compiled after warm-up, and nothing runs on the host: weights and KV cache too.
    Roundings that go the other way part the tokens soon."""
    found = {}
    for backend in ("sendnn", "eager"):
        run(ROOT / "tests/serving/offline.py", eight_bits, backend, tmp_path / backend)
        found[backend] = json.loads((tmp_path / backend).read_text())
    card, host = found["sendnn"], found["eager"]
    assert card["compiled"] == card["warmed"] > 0 and card["refused"] == card["host"] == []
    for ours, theirs in zip(card["likely"], host["likely"], strict=True):
        both = set(ours[0]) & set(theirs[0])  # the first tokens, from the same prompts
        assert all(abs(ours[0][token] - theirs[0][token]) < 0.5 for token in both)
    assert sum(a[0] == b[0] for a, b in zip(card["tokens"], host["tokens"], strict=True)) >= 5


@pytest.fixture
def server(model, tmp_path):
    """(process, port, its log), which has warmed up."""
    port, log = free_port(), tmp_path / "server.log"
    variables = {"HF_HUB_OFFLINE": "1", "SENDNN_INFERENCE_DYNAMO_BACKEND": "sendnn",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}  # fmt: skip
    with log.open("w") as file:
        process = subprocess.Popen(
            [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", model,
             "--port", str(port), "--max-model-len", "256",
             "--max-num-seqs", "4", "--max-num-batched-tokens", "128"],
            stdout=file, stderr=file, env={**os.environ, **variables},
        )  # fmt: skip
    for _ in range(300):
        time.sleep(1)
        assert process.poll() is None, log.read_text()[-4000:]
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
            break
        except OSError:
            continue
    yield process, port, log
    if process.poll() is None:
        process.terminate()
        process.wait(60)


def test_the_openai_client(server):
    process, port, log = server
    done = run(ROOT / "examples/serve.py", "--url", f"http://127.0.0.1:{port}/v1", seconds=300)
    lines = done.stdout.splitlines()
    text = {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}
    assert text["completion"] == text["chat"] == text["stream"]
    assert len(text["completion"]) == 8 and done.stdout.count("(stop)") == 1
    assert text["batch"] == ["[16,"] + ["16,"] * 6 + ["16]"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        body = json.dumps({"model": str(process.args[4]), "prompt": "w5 " * 400, "max_tokens": 2})
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/completions", body.encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 400  # a prompt beyond the model's length
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) in (0, -signal.SIGTERM), log.read_text()[-2000:]
