# SPDX-License-Identifier: Apache-2.0
"""vLLM in one process on one model: `offline.py MODEL BACKEND OUT [LACKS]` with BACKEND sendnn or
eager. LACKS names an operator of aten that the card then lacks.

Writes as JSON the tokens of several prompts with the log-probabilities of the first two, and for
sendnn the programs compiled in warm-up and while serving, the modelled bytes of the largest
decode step (4 sequences of 4 blocks), stores into the KV cache that took
another way than copies of rows, and what ran on the host.
"""

from __future__ import annotations

import json
import os
import random
import sys
from typing import Any

import torch

LENGTHS = [5, 64, 65, 100, 128, 20, 3, 77]
NEW_TOKENS = 24


def count_refused(bindings: Any) -> list[list[int]]:
    """Sizes of rows that a store does not copy as they lie, from now on."""
    refused: list[list[int]] = []
    original = bindings.copy_rows

    def copy_rows(target: Any, source: Any, runs: Any) -> bool:
        copied: bool = original(target, source, runs)
        if not copied:
            refused.append(list(source.shape))
        return copied

    bindings.copy_rows = copy_rows
    return refused


def serve_mix(llm: Any, sampling: Any) -> None:
    """Prompts of all lengths in batches of all sizes, each with its own number of new tokens."""
    for count in (1, 2, 3, 4, 7):
        lengths = [random.randrange(1, 190) for _ in range(count)]
        prompts = [{"prompt_token_ids": [random.randrange(5, 1000) for _ in range(length)]}
                   for length in lengths]  # fmt: skip
        tokens = [sampling(temperature=0, max_tokens=random.randrange(1, 60), ignore_eos=True)
                  for _ in lengths]  # fmt: skip
        llm.generate(prompts, tokens, use_tqdm=False)


def main() -> None:
    model, backend, out, *lacks = sys.argv[1:]
    os.environ.update(
        VLLM_ENABLE_V1_MULTIPROCESSING="0", MASTER_ADDR="127.0.0.1", HF_HUB_OFFLINE="1",
        SENDNN_INFERENCE_DYNAMO_BACKEND=backend,
    )  # fmt: skip
    os.environ.setdefault("MASTER_PORT", "29571")
    from vllm import LLM, SamplingParams

    if lacks:
        from torch_spyre.registry import register_fallback

        register_fallback([getattr(torch.ops.aten, name) for name in lacks])(None)
    llm = LLM(model, max_model_len=256, max_num_seqs=4, max_num_batched_tokens=128, seed=0)
    random.seed(0)
    prompts = [
        {"prompt_token_ids": [random.randrange(5, 1000) for _ in range(length)]}
        for length in LENGTHS
    ]
    sampling = SamplingParams(temperature=0, max_tokens=NEW_TOKENS, ignore_eos=True, logprobs=2)
    found: dict = {}
    if backend == "sendnn":
        import torch_spyre

        found["warmed"] = len(torch_spyre.compile_reports())
        found["bytes"] = torch_spyre.last_report().bytes  # of the largest decode step
        found["refused"] = count_refused(torch_spyre._C)
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    again = llm.generate(prompts[:3], sampling, use_tqdm=False)  # from the prefix cache
    if backend == "sendnn":
        serve_mix(llm, SamplingParams)
        found["compiled"] = len(torch_spyre.compile_reports())
        found["host"] = [record.op for record in torch_spyre.fallback_report()]
    found["tokens"] = [list(o.outputs[0].token_ids) for o in outputs]
    found["again"] = [list(o.outputs[0].token_ids) for o in again]
    found["likely"] = [
        [
            {token: value.logprob for token, value in place.items()}
            for place in o.outputs[0].logprobs
        ]
        for o in outputs
    ]
    with open(out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
