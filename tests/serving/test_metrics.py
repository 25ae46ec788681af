# SPDX-License-Identifier: Apache-2.0
"""The card in the metrics of vLLM's server, in the report of steps, and in aiu-smi beside it.
Long: run by `make test-serving`."""

import json
import pathlib
import subprocess
from concurrent.futures import ThreadPoolExecutor

import environment
import pytest
from environment import PYTHON, run
from server import Server

environment.need()
pytestmark = pytest.mark.long
BLOCKS, BLOCK = 20, 64
LAYERS, KEY_HEADS, WIDTH = 2, 2, 64  # of the model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("metrics")


@pytest.fixture(scope="module")
def server(model, folder):
    smi = folder / "smi.json"
    smi.write_text(json.dumps({"metrics": {"path": str(folder / "card.%BUSID")}}))
    found = Server(
        model, folder / "log", "--max-num-seqs", "4", "--num-gpu-blocks-override", str(BLOCKS),
        SENLIB_DEVEL_CONFIG_FILE=str(smi), SPYRE_SENDNN_STEPS=str(folder / "steps.jsonl"),
        SENDNN_INFERENCE_PERF_METRIC_LOGGING_ENABLED="1",
        SENDNN_INFERENCE_PERF_METRIC_LOGGING_DIR=str(folder),
    )  # fmt: skip
    yield found.wait()
    found.end()


def _steps(folder):
    return [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]


def test_the_metrics_are_those_of_the_steps(server, folder):
    warmed, programs = len(_steps(folder)), server.metric("spyre:programs{")
    assert server.metric("spyre:steps_total") == 0 < programs
    assert server.metric("spyre:memory_bytes", use="kv_cache") == (
        BLOCKS * BLOCK * LAYERS * 2 * KEY_HEADS * WIDTH * 2
    )
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: server.complete("w1 " * (5 + 60 * n), 12), range(3)))
    server.until_idle()
    steps = _steps(folder)[warmed:]
    for kind in ("prompt", "decode", "rows"):
        same = [step for step in steps if step["kind"] == kind]
        assert server.metric("spyre:steps_total", kind=kind) == len(same) > 0
        for name, unit in (("card", 1e-6 * sum(s["card_us"] for s in same)),
                           ("host", sum(s["host_s"] for s in same))):  # fmt: skip
            assert server.metric(f"spyre:{name}_seconds_total", kind=kind) == pytest.approx(unit)
    assert server.metric("spyre:programs{") == programs
    assert server.metric("spyre:kv_cache_bytes", state="used") == 0


def test_each_request_has_its_time_on_the_card(server):
    """What the card takes alone is a part of what the host waits for, emulation included."""
    server.complete("w1 w2 w3", 9)
    server.until_idle()
    spyre, vllm = {}, {}
    for name in ("time_to_first_token", "inter_token_latency"):
        for figure in ("count", "sum"):
            spyre[name, figure] = server.metric(f"spyre:{name}_card_seconds_{figure}")
            vllm[name, figure] = server.metric(f"vllm:{name}_seconds_{figure}")
        assert spyre[name, "count"] == vllm[name, "count"] > 0
        assert 0 < spyre[name, "sum"] < vllm[name, "sum"]
    assert (
        server.metric("spyre:request_card_seconds_count") == spyre["time_to_first_token", "count"]
    )
    waited = spyre["time_to_first_token", "sum"] + spyre["inter_token_latency", "sum"]
    assert server.metric("spyre:request_card_seconds_sum") == pytest.approx(waited, rel=0.3)


def test_the_report_of_steps_and_requests(server, folder):
    server.complete("w1 w2 w3", 9)
    server.until_idle()
    done = run("-m", "torch_spyre.sendnn.steps", folder / "steps.jsonl",
               folder / "request_metrics.jsonl")  # fmt: skip
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    calls = sum(step["kind"] == "decode" and step["batch"] == 1 for step in _steps(folder))
    assert int(rows["decode"][3]) <= calls and float(rows["decode"][5]) > 0
    of_first = next(line for line in done.stdout.splitlines() if "to the first token" in line)
    host, card = map(float, of_first.split()[-2:])
    assert 0 < card < host


def test_aiu_smi_beside_the_server(server, folder):
    server.complete("w1 w2 w3", 9)
    smi = pathlib.Path(PYTHON).with_name("aiu-smi")
    done = subprocess.run(
        [smi, folder / "card.%BUSID", "-s", "-c", "1", "-g", "U"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    names, values = (line.split(",") for line in done.stdout.splitlines()[-2:])
    card = dict(zip(names, values, strict=True))
    allocated = sum(server.metric("spyre:memory_bytes", use=u) for u in ("parameters", "kv_cache"))
    assert float(card["actmem"]) == pytest.approx(allocated / 2**30, abs=1e-3), done.stdout
