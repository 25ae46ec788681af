# SPDX-License-Identifier: Apache-2.0
"""vLLM on the card beside vLLM on the CPU: tokens per second and the time to the first token.

    build/serve/bin/python bench/serving.py [--model DIR] [--turns 5] [--rivals eager vllm]
        [--passive]

`make bench-serving` runs it on a Llama of 4 layers, width 512, vocabulary 32000, random weights.
Every contestant has a process of its own that has warmed up, and they take turns: `sendnn` is the
plugin sendnn-inference on the card, `eager` the same plugin on the CPU in fp32, `vllm` vLLM's own
backend of the CPU in fp32. A turn serves --requests prompts at once, of --prompt random tokens,
never seen before, and --tokens new ones. Ratios are medians over the turns of figures of one turn;
the program ends with status 1 if a ratio misses its floor. Processor seconds are those of all
threads: other load on the host takes tokens per second away, but adds little to them where threads
do not wait by spinning, as those of PyTorch do without --passive. What of them
the multiply-adds of a turn would take at the host's peak, and the weights that each call reads at
the speed of its memory, are shares below the table (tools/host_peak).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import host

OURS = "sendnn"
PASSIVE = {"OMP_WAIT_POLICY": "passive"}
SERVED = PASSIVE | {"OMP_NUM_THREADS": "1"}  # as `make serve` has it: the card takes the cores
FIGURES: dict[str, Callable[[float], bool] | None] = {  # of a turn, and what a ratio must be
    "tokens/s": lambda ratio: ratio >= 1.2,
    "first token ms": lambda ratio: ratio <= 1.5,
    "processor s": None,
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="build/serve-bench-model")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=240, help="after which no turn begins")
    parser.add_argument("--passive", action="store_true", help="no contestant's threads spin")
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rivals", nargs="*", choices=("eager", "vllm"), default=["eager", "vllm"])
    parser.add_argument("--profile", help="writes cProfile's statistics of the turns on the card")
    parser.add_argument("--work", help=argparse.SUPPRESS)  # the process of one contestant
    return parser.parse_args()


# ---- the process of a contestant: a line in a turn, a line of JSON out


def work(options: argparse.Namespace) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    llm = _engine(options)
    profile = None
    if options.profile:
        import cProfile

        profile = cProfile.Profile()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for seed in sys.stdin:
        if profile:
            profile.enable()
        measured = _turn(llm, options, int(seed))
        if profile:
            profile.disable()
            profile.dump_stats(options.profile)
        print(json.dumps(measured), file=answers, flush=True)


def _engine(options: argparse.Namespace) -> Any:
    os.environ.update(
        VLLM_ENABLE_V1_MULTIPROCESSING="0", MASTER_ADDR="127.0.0.1", HF_HUB_OFFLINE="1",
        MASTER_PORT=str(free_port()), VLLM_LOGGING_LEVEL="WARNING",
    )  # fmt: skip
    settings: dict[str, Any] = {"disable_log_stats": False}
    if options.work == "vllm":
        os.environ.update(VLLM_PLUGINS="none", VLLM_CPU_KVCACHE_SPACE="1")
        settings["dtype"] = "float32"
    else:
        os.environ["SENDNN_INFERENCE_DYNAMO_BACKEND"] = options.work
        # All prompts before the first decode step, as vLLM's own backend has them.
        os.environ.setdefault("SENDNN_INFERENCE_CP_INTERLEAVE_STEPS", "0")
        settings["max_num_batched_tokens"] = 128
    from vllm import LLM

    length = options.prompt + options.tokens
    return LLM(options.model, max_model_len=-(-length // 64) * 64, max_num_seqs=options.requests,
               seed=0, **settings)  # fmt: skip


def _turn(llm: Any, options: argparse.Namespace, seed: int) -> dict[str, float]:
    from vllm import SamplingParams

    words = llm.llm_engine.model_config.get_vocab_size()
    chosen = random.Random(seed)
    prompts = [
        {"prompt_token_ids": [chosen.randrange(5, words) for _ in range(options.prompt)]}
        for _ in range(options.requests)
    ]
    sampling = SamplingParams(temperature=0, max_tokens=options.tokens, ignore_eos=True)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    count = sum(len(o.outputs[0].token_ids) for o in outputs)
    waits = [o.metrics.first_token_latency for o in outputs]
    return {"tokens/s": count / seconds, "first token ms": 1e3 * statistics.mean(waits),
            "processor s": cpu}  # fmt: skip


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
    return port


# ---- the turns


class Contestant:
    """A process of `script` that has warmed up, with these variables of the environment."""

    def __init__(self, name: str, arguments: list[str], script: str, variables: dict[str, str]):
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, script, *arguments, "--work", name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | variables,
        )  # fmt: skip
        begin = time.perf_counter()
        self.read()
        print(f"{name}: ready after {time.perf_counter() - begin:.1f} s", flush=True)

    def read(self) -> dict[str, float]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: {self.name} ended with status {self.process.wait()}")
        found: dict[str, float] = json.loads(line)
        return found

    def turn(self, seed: int) -> dict[str, float]:
        assert self.process.stdin
        print(seed, file=self.process.stdin, flush=True)
        return self.read()

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def main() -> int:
    options = parse()
    if options.work:
        work(options)
        return 0
    of_rivals = PASSIVE if options.passive else {}
    contestants = [
        Contestant(name, sys.argv[1:], __file__, SERVED if name == OURS else of_rivals)
        for name in (OURS, *options.rivals)
    ]
    begin = time.monotonic()
    turns: dict[str, list[dict[str, float]]] = {c.name: [] for c in contestants}
    for seed in range(options.turns + 1):
        if seed > 1 and time.monotonic() - begin > options.seconds:
            break
        for contestant in contestants:
            turns[contestant.name].append(contestant.turn(seed))
    for contestant in contestants:
        contestant.end()
    measured = {name: found[1:] for name, found in turns.items()}
    fine = show(measured)
    for line in shares(measured, options):
        print(line)
    return 0 if fine else 1


def shares(turns: dict[str, list[dict[str, float]]], options: argparse.Namespace) -> Iterator[str]:
    """Of the processor's time: multiply-adds at its peak, weights at the speed of memory."""
    peak, gbytes = host.peak_gflops(1), host.read_gbytes()
    if peak is None or gbytes is None:
        yield "shares of the host's peak: without build/release/tools/host_peak"
        return
    layers, words = _weights(json.loads((pathlib.Path(options.model) / "config.json").read_text()))
    rows = options.prompt + options.tokens - 1
    adds = options.requests * (rows * layers + options.tokens * words) / 1e9
    yield (f"a turn needs {adds:.1f} thousand million multiply-adds with weights; a thread does "
           f"{peak / 2:.1f} a second, and reads {gbytes:.1f} GB")  # fmt: skip
    for name, found in turns.items():
        seconds = statistics.median(t["processor s"] for t in found)
        prompts = 1 if name == "vllm" else options.requests  # which it computes one by one
        width = 2 if name == OURS else 4
        read = (prompts + options.tokens - 1) * (layers + words) * width / 1e9
        of_adds, of_reads = (100 * x / seconds for x in (adds / (peak / 2), read / gbytes))
        yield (f"{name:8s} multiply-adds {of_adds:3.0f} % of its processor time, weights "
               f"({read:.1f} GB) {of_reads:3.0f} %")  # fmt: skip


def _weights(config: dict[str, int]) -> tuple[int, int]:
    """Of the products of all layers, and of that with the vocabulary."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    of_head = config.get("head_dim") or width // heads
    attention = 2 * width * of_head * (heads + config["num_key_value_heads"])
    layer = attention + 3 * width * config["intermediate_size"]
    return config["num_hidden_layers"] * layer, width * config["vocab_size"]


def show(turns: dict[str, list[dict[str, float]]]) -> bool:
    """Prints figures and ratios; whether all ratios are where they should be."""
    fine = True
    heads = "".join(f"{head:>14s}{'x':>7s}" for head in FIGURES)
    print(f"{'':8s}{heads}   (x: the card's to it)")
    for name, found in turns.items():
        cells = f"{name:8s}"
        for figure, floor in FIGURES.items():
            pairs = zip(turns[OURS], found, strict=True)
            ratio = statistics.median(ours[figure] / its[figure] for ours, its in pairs)
            cells += f"{statistics.median(t[figure] for t in found):14.2f}{ratio:7.2f}"
            fine &= name == OURS or floor is None or floor(ratio)
        print(cells)
    return fine


if __name__ == "__main__":
    sys.exit(main())
