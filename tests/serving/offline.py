# SPDX-License-Identifier: Apache-2.0
"""vLLM in one process on one model: `offline.py MODEL BACKEND OUT` with BACKEND sendnn or eager.

Writes as JSON the tokens of several prompts with the log-probabilities of the first two, and for
sendnn the graphs compiled in warm-up and while serving, and what ran on the host.
"""

from __future__ import annotations

import json
import os
import random
import sys

LENGTHS = [5, 64, 65, 100, 128, 20, 3, 77]
NEW_TOKENS = 24


def main() -> None:
    model, backend, out = sys.argv[1:]
    os.environ.update(
        VLLM_ENABLE_V1_MULTIPROCESSING="0", MASTER_ADDR="127.0.0.1", HF_HUB_OFFLINE="1",
        SENDNN_INFERENCE_DYNAMO_BACKEND=backend,
    )  # fmt: skip
    os.environ.setdefault("MASTER_PORT", "29571")
    from vllm import LLM, SamplingParams

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
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    again = llm.generate(prompts[:3], sampling, use_tqdm=False)  # from the prefix cache
    if backend == "sendnn":
        found["compiled"] = len(torch_spyre.compile_reports())
        found["host"] = str(torch_spyre.fallback_report())
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
