# SPDX-License-Identifier: Apache-2.0
"""Embeddings by vLLM on the card beside the compiled model alone: sentences per second.

    build/serve/bin/python bench/embedding.py --model DIR [--turns 5] [--sentences 128]

`make bench-embedding` runs it on all-MiniLM-L6-v2 with its real weights. Both get the same texts,
in batches of 8 padded to 64 tokens. `served` is vLLM with the plugin sendnn-inference, `alone` the
model of examples/semantic_search.py. They take turns, in processes of their own that have warmed
up. The program ends with status 1 if `served` has less than 0.7 of the sentences per second of
`alone`.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import time
from collections.abc import Callable

from serving import PASSIVE, Contestant, free_port

BATCH, LENGTH, LEAST = 8, 64, 0.7
WORDS = "the roof price harbour ship old storm night bread water red high street light city".split()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=128, help="a multiple of 8")
    parser.add_argument("--work", help=argparse.SUPPRESS)  # the process of one contestant
    return parser.parse_args()


def texts(seed: int, count: int) -> list[str]:
    """Of 50 words, which are as many tokens."""
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=50)) for _ in range(count)]


def served(folder: str) -> Callable[[list[str]], object]:
    os.environ.update(
        VLLM_ENABLE_V1_MULTIPROCESSING="0", MASTER_ADDR="127.0.0.1", HF_HUB_OFFLINE="1",
        MASTER_PORT=str(free_port()), VLLM_LOGGING_LEVEL="WARNING",
        SENDNN_INFERENCE_DYNAMO_BACKEND="sendnn",
        SENDNN_INFERENCE_WARMUP_PROMPT_LENS=str(LENGTH),
        SENDNN_INFERENCE_WARMUP_BATCH_SIZES=str(BATCH),
    )  # fmt: skip
    from vllm import LLM

    llm = LLM(folder, runner="pooling", seed=0)
    return lambda sentences: llm.embed(sentences, use_tqdm=False)


def alone(folder: str) -> Callable[[list[str]], object]:
    sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples"))
    import semantic_search
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32, add_pooling_layer=False).eval()
    embedder = semantic_search.Embedder(model).half().to("spyre").requires_grad_(False)
    compiled = torch.compile(embedder, dynamic=False)

    def embed(sentences: list[str]) -> object:
        batches = semantic_search.make_batches(tokenizer, sentences, BATCH)
        return [semantic_search.run_on_card(compiled, ids, mask) for _, ids, mask in batches]

    return embed


def work(options: argparse.Namespace) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    embed = {"served": served, "alone": alone}[options.work](options.model)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for seed in sys.stdin:
        sentences = texts(int(seed), options.sentences)
        begin, cpu = time.perf_counter(), time.process_time()
        embed(sentences)
        seconds, processor = time.perf_counter() - begin, time.process_time() - cpu
        count = len(sentences)
        print(json.dumps({"sentences/s": count / seconds, "processor ms": 1e3 * processor / count}),
              file=answers, flush=True)  # fmt: skip


def main() -> int:
    options = parse()
    if options.work:
        work(options)
        return 0
    contestants = [Contestant(n, sys.argv[1:], __file__, PASSIVE) for n in ("served", "alone")]
    turns = [[c.turn(seed) for c in contestants] for seed in range(options.turns + 1)][1:]
    for contestant in contestants:
        contestant.end()
    for figure in ("sentences/s", "processor ms"):
        pairs = [(ours[figure], theirs[figure]) for ours, theirs in turns]
        ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{figure:14s} served {ours:8.1f}, alone {theirs:8.1f}, {ratio:.2f}")
        if figure == "sentences/s":
            fine = ratio >= LEAST
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
