# SPDX-License-Identifier: Apache-2.0
"""Models of ibm-fms, two layers wide 256 with random weights, on the card and in float32:
`architectures.py OUT [NAME ..]` writes as JSON, by architecture, the largest difference of logits
over the largest logit, and the operators that ran on the host. ibm-fms makes no ministral3 and no
vision model without a checkpoint."""

from __future__ import annotations

import copy
import json
import os
import sys
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", AIU_WORLD_RANK_0="0")
import torch
import torch_spyre
from fms.models import get_model

TEXT = {"src_vocab_size": 512, "nlayers": 2, "pad_id": -1}
LLAMA = {**TEXT, "emb_dim": 256, "nheads": 4}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {  # variant, settings
    "llama": ("7b", {**LLAMA, "kvheads": 2}),
    "granite": ("8b", {**LLAMA, "kvheads": 2, "head_dim": 64}),
    "granite_moe_hybrid": ("8b", {**LLAMA, "kvheads": 2, "head_dim": 64}),
    "granite_swa": ("3b", {**LLAMA, "kvheads": 2, "head_dim": 64, "is_swa_layer": [False, True]}),
    "gpt_bigcode": ("santacoder", {**LLAMA, "pad_id": 0}),
    "gpt_oss": ("20b", {**LLAMA, "kvheads": 2, "num_experts": 4, "num_attention_heads": 4,
                        "layer_types": ["sliding_attention", "full_attention"]}),
    "mistral": ("7b", {**LLAMA, "kvheads": 2, "head_dim": 64}),
    "mixtral": ("8x7b", {**TEXT, "dim": 256, "nheads": 4, "kvheads": 2, "hidden_dim": 512,
                         "num_experts": 4}),
    "qwen3": ("0.6b", {**LLAMA, "kvheads": 2, "head_dim": 64}),
    "bamba": ("9_8b", {**LLAMA, "kvheads": 2, "head_dim": 64, "attn_layer_indices": [1],
                       "mamba_n_heads": 8, "n_groups": 1, "state_size": 64, "chunk_size": 32}),
    "roberta": ("base", {**LLAMA, "pad_id": 1, "max_pos": 128}),
    "mpnet": ("v2", {**LLAMA, "pad_id": 1, "intermediate_size": 512, "max_expected_seq_len": 128}),
}  # fmt: skip


def first_tensor(value: Any) -> torch.Tensor:
    while not isinstance(value, torch.Tensor):
        value = value[0]
    return value


def compare(name: str) -> dict[str, Any]:
    variant, settings = MODELS[name]
    torch.manual_seed(0)
    model = get_model(name, variant, device_type="cpu", data_type=torch.float32, **settings)
    for key, parameter in model.named_parameters():
        about = (0.0, 0.05) if parameter.dim() > 1 or "bias" in key else (1.0, 0.1)
        torch.nn.init.normal_(parameter, *about)
    model.eval().requires_grad_(False)
    x = torch.randint(5, 500, (2, 40))
    expected = first_tensor(model(x))
    half = copy.deepcopy(model).half()
    half.compile(backend="sendnn")
    found = first_tensor(half(x)).float()
    error = (found - expected).abs().max() / expected.abs().max()
    host = sorted({record.op for record in torch_spyre.fallback_report()})
    torch_spyre.reset_fallback_report()
    return {"error": float(error), "host": host}


def main() -> None:
    out, *names = sys.argv[1:]
    found = {}
    for name in names or MODELS:
        torch._dynamo.reset()
        found[name] = compare(name)
    with open(out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
