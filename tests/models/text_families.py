# SPDX-License-Identifier: Apache-2.0
"""Encoders, decoders and encoder-decoders of text."""

from __future__ import annotations

import transformers
from family import LENGTH, SMALL, SMALL_PAIR, VOCABULARY, Family, config, ids, prompt, text


def _encoder(name: str, title: str, model: str = "", **values) -> Family:
    kind = getattr(transformers, model or f"{title}Model")
    return Family(name, "encoder", lambda: kind(config(title, **{**SMALL, **values})), text)


def _decoder(name: str, title: str, model: str = "", static_cache=True, small=SMALL, **values):
    kind = getattr(transformers, model or f"{title}ForCausalLM")
    return Family(
        name,
        "decoder",
        lambda: kind(config(title, **{**small, **values})),
        prompt,
        generates=True,
        labels="input_ids",
        static_cache=static_cache,
    )


def _pair(name: str, title: str, model: str = "", small=None, **values) -> Family:
    """An encoder and a decoder of one size."""
    kind = getattr(transformers, model or f"{title}ForConditionalGeneration")
    return Family(
        name,
        "encoder-decoder",
        lambda: kind(config(title, **{**(_PAIR if small is None else small), **values})),
        lambda: {**text(), "decoder_input_ids": ids(length=LENGTH // 2)},
        generates=True,
        labels="decoder_input_ids",
    )


_GROUPED = {"num_key_value_heads": 2}
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 128}
_PAIR = {**SMALL_PAIR, "max_position_embeddings": 128, "forced_eos_token_id": None}
_T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 128,
    "d_kv": 32,
    "d_ff": 256,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}

ENCODERS = [
    _encoder("bert", "Bert"),
    _encoder("roberta", "Roberta"),
    _encoder("xlm-roberta", "XLMRoberta"),
    _encoder("distilbert", "DistilBert", dim=128, hidden_dim=256, n_layers=2, n_heads=4),
    _encoder("albert", "Albert", embedding_size=64),
    _encoder("electra", "Electra", embedding_size=64),
    _encoder("mpnet", "MPNet"),
    _encoder("deberta-v2", "DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    _encoder("modernbert", "ModernBert", cls_token_id=1, sep_token_id=2, local_attention=16),
    _encoder("squeezebert", "SqueezeBert", embedding_size=128),
    _encoder("roformer", "RoFormer", embedding_size=128),
    _encoder("esm", "Esm", mask_token_id=3, position_embedding_type="rotary"),
]

DECODERS = [
    _decoder("gpt2", "GPT2", "GPT2LMHeadModel", small=_GPT2),
    _decoder("gpt_neo", "GPTNeo", num_layers=2, num_heads=4,
             attention_types=[[["global", "local"], 1]], window_size=16),
    _decoder("gpt_neox", "GPTNeoX"),
    _decoder("gptj", "GPTJ", small=_GPT2, rotary_dim=16),
    _decoder("opt", "OPT", ffn_dim=256, word_embed_proj_dim=128),
    _decoder("bloom", "Bloom", n_head=4, n_layer=2),
    _decoder("llama", "Llama", **_GROUPED),
    _decoder("mistral", "Mistral", sliding_window=16, **_GROUPED),
    _decoder("ministral", "Ministral", head_dim=32, sliding_window=16, **_GROUPED),
    _decoder("mixtral", "Mixtral", num_local_experts=4, **_GROUPED),
    _decoder("qwen2", "Qwen2", **_GROUPED),
    _decoder("qwen3", "Qwen3", head_dim=32, **_GROUPED),
    _decoder("gemma", "Gemma", head_dim=32, **_GROUPED),
    _decoder("gemma2", "Gemma2", head_dim=32, sliding_window=16, **_GROUPED),
    _decoder("gemma3_text", "Gemma3Text", "Gemma3ForCausalLM", head_dim=32, sliding_window=16,
             **_GROUPED),
    _decoder("phi", "Phi"),
    _decoder("phi3", "Phi3", **_GROUPED),
    _decoder("olmo", "Olmo", **_GROUPED),
    _decoder("olmo2", "Olmo2", **_GROUPED),
    _decoder("granite", "Granite", **_GROUPED),
    _decoder("granitemoehybrid", "GraniteMoeHybrid", shared_intermediate_size=256,
             num_local_experts=0, layer_types=["attention", "attention"],
             position_embedding_type="rope", **_GROUPED),
    _decoder("smollm3", "SmolLM3", **_GROUPED),
    _decoder("stablelm", "StableLm", **_GROUPED),
    _decoder("falcon", "Falcon", num_kv_heads=2, new_decoder_architecture=True),
    _decoder("cohere", "Cohere", **_GROUPED),
    # Dynamo refuses to trace the making of its cache, on the CPU, too.
    _decoder("mamba", "Mamba", static_cache=False, state_size=16, use_cache=False),
]  # fmt: skip

PAIRS = [
    _pair("t5", "T5", small=_T5),
    _pair("mt5", "MT5", small=_T5),
    _pair("bart", "Bart"),
    _pair("mbart", "MBart"),
    _pair("pegasus", "Pegasus"),
    _pair("marian", "Marian", "MarianMTModel"),
    _pair("m2m_100", "M2M100"),
]
