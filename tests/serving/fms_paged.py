# SPDX-License-Identifier: Apache-2.0
"""Greedy tokens by `generate` of aiu-fms-testing-utils with paged attention, on the card or the
CPU.

    fms_paged.py MODEL BACKEND DTYPE CHUNK OUT

BACKEND is sendnn or none, DTYPE float16, float32, or fp8 of a model in eight bits (small_fp8.py),
whose KV cache is, too; CHUNK the tokens of a chunk of a prompt or 0.
Writes a file of torch.save: tokens [batch, new], and logits [new, batch, vocabulary] in float32.
"""

from __future__ import annotations

import os
import sys

os.environ.update(VLLM_DT_MAX_BATCH_SIZE="3", VLLM_DT_MAX_CONTEXT_LEN="256", HF_HUB_OFFLINE="1",
                  SENCORES="32", FLEX_COMPUTE="SENULATOR", FLEX_DEVICE="MOCK")  # fmt: skip
import torch
from aiu_fms_testing_utils.utils import warmup_model
from aiu_fms_testing_utils.utils.paged import generate
from fms.models import get_model
from fms.utils.generation import pad_input_ids
from torch.fx.experimental import _config as fx_config

LENGTHS = [40, 129, 70]  # of prompts: one, three and two blocks, each padded on its left
NEW_TOKENS = 16


def main() -> None:
    folder, backend, dtype, chunk, out = sys.argv[1:]
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    of_model = None if dtype == "fp8" else getattr(torch, dtype)
    model = get_model("hf_pretrained", model_path=folder, device_type="cpu", data_type=of_model,
                      fused_weights=dtype != "fp8")  # fmt: skip
    model.eval()
    prompts = [torch.randint(5, 1000, (length,)) for length in LENGTHS]
    ids, kwargs = pad_input_ids(prompts, min_pad_length=192)
    kwargs["mask"] = kwargs["mask"].to(of_model or torch.float16)
    kwargs["attn_name"] = "spyre_paged_attn" + ("_fp8" if dtype == "fp8" else "")
    if backend != "none":
        fx_config.backed_size_oblivious = True
        model.compile(backend=backend, options={"sendnn.dynamic": True})
        warmup_model(model, ids, NEW_TOKENS, True, prefill_chunk_size=int(chunk), **kwargs)
    logits = []

    def keep(_place, of_step, value, rest):
        logits.append(of_step.float().clone())
        return value, rest

    result = generate(
        model, ids, max_new_tokens=NEW_TOKENS, use_cache=True, do_sample=False,
        prefill_chunk_size=int(chunk), post_iteration_hook=keep,
        extra_kwargs={**kwargs, "last_n_tokens": 64},
    )  # fmt: skip
    torch.save({"tokens": result[:, -NEW_TOKENS:], "logits": torch.stack(logits)}, out)


if __name__ == "__main__":
    main()
