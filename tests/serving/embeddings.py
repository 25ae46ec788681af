# SPDX-License-Identifier: Apache-2.0
"""Embeddings and scores by vLLM with the plugin sendnn-inference:
`embeddings.py MODEL BACKEND OUT` with BACKEND sendnn or eager, as JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TEXTS = [
    f"The {what} of the {whose} is {how}."
    for what in ("roof", "price", "colour")
    for whose in ("house", "car")
    for how in ("red", "high", "old", "broken by the storm of last night")
]


def main() -> None:
    model, backend, out = sys.argv[1:]
    os.environ.update(
        VLLM_ENABLE_V1_MULTIPROCESSING="0", MASTER_ADDR="127.0.0.1", HF_HUB_OFFLINE="1",
        SENDNN_INFERENCE_DYNAMO_BACKEND=backend, SENDNN_INFERENCE_WARMUP_PROMPT_LENS="64",
        SENDNN_INFERENCE_WARMUP_BATCH_SIZES="8",
    )  # fmt: skip
    from vllm import LLM
    from vllm.exceptions import VLLMClientError

    llm = LLM(model, runner="pooling", seed=0)
    found: dict[str, Any] = {}
    if backend == "sendnn":
        import torch_spyre

        found["warmed"] = len(torch_spyre.compile_reports())
    found["embeddings"] = [o.outputs.embedding for o in llm.embed(TEXTS, use_tqdm=False)]
    scores = llm.score("Who repairs the roof?", TEXTS, use_tqdm=False)
    found["scores"] = [o.outputs.score for o in scores]
    try:
        llm.embed(["roof " * 100], use_tqdm=False)
    except VLLMClientError as refused:
        found["refused"] = str(refused)
    if backend == "sendnn":
        found["compiled"] = len(torch_spyre.compile_reports())
        found["host"] = [record.op for record in torch_spyre.fallback_report()]
    with open(out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
