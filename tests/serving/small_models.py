# SPDX-License-Identifier: Apache-2.0
"""small_models.py NAME FOLDER: a checkpoint of two layers, wide 256, with random weights, in the
form of `transformers`, and its tokenizer of words. NAME is an architecture of ibm-fms (NAMES)."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

sys.path.append(str(pathlib.Path(__file__).parents[2] / "examples"))
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from serve_model import write_tokenizer

WORDS = 1024
BASE = {"vocab_size": WORDS, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}
LLAMA = {**BASE, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048,
         "tie_word_embeddings": False}  # fmt: skip
HEADS = {**LLAMA, "head_dim": 64}
GRANITE = {**HEADS, "attention_multiplier": 1 / 64}
ENCODER = {**LLAMA, "max_position_embeddings": 130, "pad_token_id": 1, "bos_token_id": 0,
           "type_vocab_size": 1}  # fmt: skip
SLIDING = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 128}
VISION = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
          "num_attention_heads": 4, "image_size": 56, "patch_size": 14}  # fmt: skip
NAMES: dict[str, tuple[str, dict[str, Any]]] = {  # class of transformers without Config, settings
    "llama": ("LlamaForCausalLM", LLAMA),
    "granite": ("GraniteForCausalLM", GRANITE),
    # ibm-fms pads by 100,256, whatever the checkpoint says.
    "granite_moe_hybrid": ("GraniteMoeHybridForCausalLM", {
        **GRANITE, "vocab_size": 100_352, "num_local_experts": 0, "num_experts_per_tok": 0,
        "shared_intermediate_size": 512, "layer_types": ["attention"] * 2,
        "position_embedding_type": "rope"}),
    "granite_swa": ("GraniteSWAForCausalLM", {**GRANITE, **SLIDING}),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", {
        **BASE, "n_embd": 256, "n_layer": 2, "n_head": 4, "n_inner": 512, "n_positions": 2048}),
    "gpt_oss": ("GptOssForCausalLM", {
        **HEADS, **SLIDING, "num_local_experts": 4, "num_experts_per_tok": 2,
        "intermediate_size": 256}),
    "mistral": ("MistralForCausalLM", {**HEADS, "sliding_window": None}),
    "mixtral": ("MixtralForCausalLM", {
        **LLAMA, "num_attention_heads": 8, "num_key_value_heads": 8,  # or ibm-fms takes 8 anyway
        "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "qwen3": ("Qwen3ForCausalLM", HEADS),
    # ibm-fms attends in the tenth layer (and two beyond), whatever the checkpoint says.
    "bamba": ("BambaForCausalLM", {
        **LLAMA, "num_hidden_layers": 10, "attn_layer_indices": [9], "mamba_n_heads": 8,
        "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 64, "mamba_chunk_size": 64}),
    "roberta": ("RobertaForMaskedLM", ENCODER),
    "roberta_question_answering": ("RobertaForQuestionAnswering", ENCODER),
    "bert": ("BertForMaskedLM", ENCODER),
    "mpnet": ("MPNetForMaskedLM", ENCODER),
}  # fmt: skip


ENCODERS = ("roberta", "roberta_question_answering", "bert", "mpnet")
MARKS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def write_tokenizer_of_encoder(folder: str) -> None:
    names = [*MARKS, *(f"w{n}" for n in range(WORDS - len(MARKS)))]
    vocabulary = {word: number for number, word in enumerate(names)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        pad_token="<pad>", mask_token="<mask>", model_max_length=128,
    ).save_pretrained(folder)  # fmt: skip


# ---- checkpoints that ibm-fms reads in another form than transformers writes


def _of_mixtral(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """In the names of its makers; experts lie below each other."""
    names = {"model.embed_tokens": "tok_embeddings", "lm_head": "output", "model.": "",
             "self_attn": "attention", "q_proj": "wq", "k_proj": "wk", "v_proj": "wv",
             "o_proj": "wo", "input_layernorm": "attention_norm",
             "post_attention_layernorm": "ffn_norm"}  # fmt: skip
    found: dict[str, torch.Tensor] = {}
    for key, weight in weights.items():
        for old, new in names.items():
            key = key.replace(old, new)
        if ".experts." in key:
            layer, _, rest = key.partition(".experts.")
            key, part = f"{layer}.{rest.split('.')[1]}", weight
            weight = part.t() if key.endswith("w2") else part
            weight = torch.cat([found[key], weight]) if key in found else weight
        found[key] = weight
    return found


def _of_gpt_oss(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights of experts are blocks of 32 numbers of four bits with a power of two each."""
    found = {}
    for key, weight in weights.items():
        if not key.endswith(("gate_up_proj", "down_proj")):
            found[key] = weight
            continue
        experts, width, columns = weight.shape
        groups = (experts, columns, width // 32)
        found[key + "_blocks"] = torch.randint(0, 256, (*groups, 16), dtype=torch.uint8)
        found[key + "_scales"] = torch.full(groups, 127 - 6, dtype=torch.uint8)
    return found


@torch.no_grad()
def _give_heads_one_bias(parameters: dict[str, torch.nn.Parameter]) -> None:
    """Checkpoints have that of a head under two names, of which ibm-fms reads either, by the order
    of a set of strings."""
    for name, parameter in parameters.items():
        if name.endswith(".decoder.bias"):
            parameter.copy_(parameters[name.replace(".decoder.bias", ".bias")])


REWRITTEN = {"mixtral": _of_mixtral, "gpt_oss": _of_gpt_oss}


def write(name: str, folder: str) -> None:
    torch.manual_seed(0)
    made, settings = NAMES[name]
    kind = getattr(transformers, made)
    model = kind(kind.config_class(**settings))
    for key, parameter in model.named_parameters():
        if parameter.dim() > 1 or "bias" in key or "sink" in key:
            torch.nn.init.normal_(parameter, std=0.05)
    _give_heads_one_bias(dict(model.named_parameters()))
    model.half().save_pretrained(folder)
    if name in REWRITTEN:
        file = pathlib.Path(folder) / "model.safetensors"
        weights = REWRITTEN[name](load_file(file))
        save_file({key: w.contiguous() for key, w in weights.items()}, file, {"format": "pt"})
    if name in ENCODERS:
        write_tokenizer_of_encoder(folder)
    else:
        write_tokenizer(folder, settings["vocab_size"])


if __name__ == "__main__":
    write(*sys.argv[1:])
