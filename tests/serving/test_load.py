# SPDX-License-Identifier: Apache-2.0
"""vLLM's server on the card under load: many requests, few blocks, clients that hang up, SIGTERM,
a second server. Long: run by `make test-serving`."""

import pathlib
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import environment
import pytest
from server import Server

environment.need()
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    """16 sequences at once, and 1,024 tokens: blocks for four whole ones and some more."""
    log = tmp_path_factory.mktemp("server") / "log"
    found = Server(model, log, "--max-num-seqs", "16", "--num-gpu-blocks-override", "32",
                   VLLM_DT_MAX_BATCH_TKV_LIMIT="1024")  # fmt: skip
    yield found.wait()
    found.end()


def _prompts(count):
    return [
        " ".join(f"w{(7 * i + 13 * n + n * n) % 900}" for i in range(5 + 23 * n % 90))
        for n in range(count)
    ]


def test_sixteen_in_flight_get_what_each_gets_alone(server):
    prompts = _prompts(16)
    with ThreadPoolExecutor(16) as threads:
        together = list(threads.map(lambda words: server.complete(words, 12), prompts))
    assert together == [server.complete(words, 12) for words in prompts]


def test_more_requests_than_blocks_are_all_answered(server):
    prompts = _prompts(24)
    with ThreadPoolExecutor(24) as threads:
        answers = list(threads.map(lambda words: server.ask(words, 120), prompts))
    assert [answer["usage"]["completion_tokens"] for answer in answers] == [120] * 24


def test_clients_that_hang_up_free_their_blocks(server):
    prompts = _prompts(16)

    def hang_up(words):
        with server.open(words, 150, stream=True) as answer:
            for _ in range(4):
                answer.readline()

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(hang_up, prompts))
    server.until_idle()
    assert server.metric("vllm:kv_cache_usage_perc") < 0.5
    assert len(server.complete(prompts[0], 12).split()) == 12


def _terminate_under_load(server, seconds, count=8):
    """What came of requests of a server that got SIGTERM: texts and errors. Clients hang up after
    so many seconds: vLLM waits for them, also when it has cut them off."""
    prompts, answers = _prompts(count), []

    def ask(words):
        try:
            answers.append(server.complete(words, 100, seconds))
        except OSError as error:
            answers.append(error)

    threads = [threading.Thread(target=ask, args=(words,)) for words in prompts]
    for thread in threads:
        thread.start()
    while server.metric("vllm:num_requests_running") < 2:
        time.sleep(0.05)
    group = _children(server.process.pid)
    server.process.send_signal(signal.SIGTERM)
    status = server.process.wait(120)
    for thread in threads:
        thread.join(60)
    log = server.log.read_text()
    assert status in (0, -signal.SIGTERM), log[-3000:]
    assert len(answers) == len(prompts)
    assert group and _gone(group), [_state(pid) for pid in group]
    assert "Application shutdown complete" in log, log[-3000:]
    return answers


def test_a_second_server_on_the_card(server, model, tmp_path):
    """It gives the same answers, and ends what it has begun when it is asked to end."""
    options = ["--max-num-seqs", "2", "--shutdown-timeout", "100"]
    other = Server(model, tmp_path / "log", *options).wait()
    try:
        prompts = _prompts(4)
        with ThreadPoolExecutor(8) as threads:
            texts = list(
                threads.map(lambda s: [s.complete(words, 8) for words in prompts], [server, other])
            )
        assert texts[0] == texts[1]
        answers = _terminate_under_load(other, 100)
        assert all(isinstance(answer, str) for answer in answers), answers
    finally:
        other.end()


def test_sigterm_under_load(server):
    """Without a time to end in, requests are cut off, some with the words they have: vLLM's way."""
    answers = _terminate_under_load(server, 10, 40)
    assert any(isinstance(answer, OSError) or len(answer.split()) < 100 for answer in answers)


def test_a_cache_that_does_not_fit_says_so_before_warm_up(model, tmp_path):
    server = Server(model, tmp_path / "log", "--max-num-seqs", "2",
                    "--num-gpu-blocks-override", "20000", SPYRE_MEMORY_LIMIT_GB="1")  # fmt: skip
    assert server.process.wait(600) != 0
    log = server.log.read_text()
    assert "4 tables of 20000 blocks" in log and "MB are free" in log, log[-3000:]


def _children(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def _state(pid):
    """The state of a process and its name, "" when it is gone or only waits to be reaped."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return "" if fields["State"].startswith("Z") else f"{fields['Name']} {fields['State']}"


def _gone(group):
    for _ in range(40):
        if not any(map(_state, group)):
            return True
        time.sleep(0.25)
    return False
