# SPDX-License-Identifier: Apache-2.0
"""Models of ibm-fms, two layers wide 256 with random weights, on the card and in float32:
`architectures.py OUT [NAME ..]` writes as JSON, by architecture, the largest difference of logits
over the largest logit, and the operators that ran on the host. Vision models, and those that hold
one, are made by their classes: get_model() resets their parameters without end.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", AIU_WORLD_RANK_0="0")
import torch
import torch_spyre
from fms.models import get_model
from fms.models.granite import GraniteConfig
from fms.models.llava_next import LlavaNext, LlavaNextConfig
from fms.models.ministral3 import Ministral3, Ministral3Config, Ministral3TextConfig
from fms.models.mistral import MistralConfig
from fms.models.mistral3 import Mistral3, Mistral3Config
from fms.models.pixtral_vision import PixtralVisionConfig, PixtralVisionModel
from fms.models.siglip_vision import SiglipVision, SiglipVisionConfig

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


VISION = {"hidden_size": 256, "intermediate_size": 512, "nlayers": 2, "nheads": 4}
SIGLIP = SiglipVisionConfig(**VISION, image_size=64)
PIXTRAL = PixtralVisionConfig(**VISION, image_size=56)
DECODER = {**LLAMA, "kvheads": 2, "head_dim": 64, "max_expected_seq_len": 256}
YARN = {"rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 64,
        "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}  # fmt: skip
CLASSES: dict[str, Callable[[], torch.nn.Module]] = {
    "siglip_vision": lambda: SiglipVision(SIGLIP),
    "pixtral_vision": lambda: PixtralVisionModel(PIXTRAL),
    "llava_next": lambda: LlavaNext(LlavaNextConfig(
        SIGLIP, GraniteConfig(**DECODER, attention_multiplier=1 / 64))),
    "mistral3": lambda: Mistral3(Mistral3Config(MistralConfig(**DECODER), PIXTRAL)),
    "ministral3": lambda: Ministral3(Ministral3Config(
        Ministral3TextConfig(**DECODER, rope_parameters=YARN), PIXTRAL)),
}  # fmt: skip


def make_model(name: str) -> torch.nn.Module:
    if name in CLASSES:
        return CLASSES[name]()
    variant, settings = MODELS[name]
    return get_model(name, variant, device_type="cpu", data_type=torch.float32, **settings)


def make_inputs(name: str, dtype: torch.dtype) -> tuple[Any, ...]:
    """Images of a vision model, tokens of any other."""
    torch.manual_seed(1)
    if name == "siglip_vision":
        return (torch.randn(2, 3, 64, 64).to(dtype),)
    if name == "pixtral_vision":
        return torch.randn(2, 3, 56, 56).to(dtype), [(56, 56)] * 2
    return (torch.randint(5, 500, (2, 40)),)


def first_tensor(value: Any) -> torch.Tensor:
    while not isinstance(value, torch.Tensor):
        value = value[0]
    return value


def compare(name: str) -> dict[str, Any]:
    torch.manual_seed(0)
    model = make_model(name)
    for key, parameter in model.named_parameters():
        about = (0.0, 0.05) if parameter.dim() > 1 or "bias" in key else (1.0, 0.1)
        torch.nn.init.normal_(parameter, *about)
    model.eval().requires_grad_(False)
    expected = first_tensor(model(*make_inputs(name, torch.float32)))
    half = copy.deepcopy(model).half()
    half.compile(backend="sendnn")
    found = first_tensor(half(*make_inputs(name, torch.float16))).float()
    error = (found - expected).abs().max() / expected.abs().max()
    host = sorted({record.op for record in torch_spyre.fallback_report()})
    torch_spyre.reset_fallback_report()
    return {"error": float(error), "host": host}


def main() -> None:
    out, *names = sys.argv[1:]
    found = {}
    for name in names or [*MODELS, *CLASSES]:
        torch._dynamo.reset()
        found[name] = compare(name)
    with open(out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
