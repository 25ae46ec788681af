# SPDX-License-Identifier: Apache-2.0
"""vLLM with the plugin sendnn-inference on the card. Needs the environment of `make serve-setup`;
SERVE names another one. Long: run by `make test-serving`."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SERVE = pathlib.Path(os.environ.get("SERVE", ROOT / "build/serve"))
NEAR = 0.05  # of log-probabilities: a tie

pytestmark = pytest.mark.long
if not next(SERVE.glob("lib/*/site-packages/vllm"), None):
    pytest.skip(f"NO SERVING TESTS: {SERVE} has no vLLM: make serve-setup", allow_module_level=True)


def _run(*command, seconds=900, **variables):
    done = subprocess.run(
        [SERVE / "bin/python", *command], capture_output=True, text=True, timeout=seconds,
        env={**os.environ, **variables},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    _run(ROOT / "examples/serve_model.py", folder)
    return folder


@pytest.fixture(scope="module")
def served(model, tmp_path_factory):
    """What offline.py found by backend."""
    folder, found = tmp_path_factory.mktemp("served"), {}
    for backend in ("sendnn", "eager"):
        out = folder / backend
        _run(ROOT / "tests/serving/offline.py", model, backend, out)
        found[backend] = json.loads(out.read_text())
    return found


def test_tokens_are_those_of_the_cpu_or_part_at_a_tie(served):
    card, host = served["sendnn"], served["eager"]
    for ours, theirs, likely in zip(card["tokens"], host["tokens"], host["likely"], strict=True):
        parted = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b][:1]
        for place in parted:
            best = likely[place]
            assert str(ours[place]) in best, (place, ours, theirs)
            assert abs(best[str(ours[place])] - best[str(theirs[place])]) < NEAR


def test_the_prefix_cache_gives_the_same(served):
    assert served["sendnn"]["again"] == served["sendnn"]["tokens"][:3]


def test_nothing_is_compiled_after_warm_up_and_nothing_runs_on_the_host(served):
    card = served["sendnn"]
    assert card["compiled"] == card["warmed"] > 0
    assert card["refused"] == card["host"] == []


def _free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def server(model, tmp_path):
    """(process, port, its log), which has warmed up."""
    port, log = _free_port(), tmp_path / "server.log"
    variables = {"HF_HUB_OFFLINE": "1", "SENDNN_INFERENCE_DYNAMO_BACKEND": "sendnn",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}  # fmt: skip
    with log.open("w") as file:
        process = subprocess.Popen(
            [SERVE / "bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model", model,
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
    done = _run(ROOT / "examples/serve.py", "--url", f"http://127.0.0.1:{port}/v1", seconds=300)
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
