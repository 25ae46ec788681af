# SPDX-License-Identifier: Apache-2.0
"""Writes a small Llama with random weights and a tokenizer of its own, to serve.

    python examples/serve_model.py FOLDER [--layers 2] [--width 256] [--vocabulary 1024]

The tokenizer knows the words w0, w1, .. and nothing else.
"""

from __future__ import annotations

import argparse

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HEAD_WIDTH = 64
SPECIAL = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}


def write_model(folder: str, layers: int, width: int, vocabulary: int) -> None:
    torch.manual_seed(0)
    heads = width // HEAD_WIDTH
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=width, intermediate_size=2 * width,
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=max(1, heads // 2),
        max_position_embeddings=2048, bos_token_id=1, eos_token_id=2, pad_token_id=3,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.05)
    model.half().save_pretrained(folder)


def write_tokenizer(folder: str, vocabulary: int) -> None:
    names = [*SPECIAL.values(), *(f"w{i}" for i in range(vocabulary - len(SPECIAL)))]
    words = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)
    fast.chat_template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    fast.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=256, help="a multiple of 64")
    parser.add_argument("--vocabulary", type=int, default=1024)
    arguments = parser.parse_args()
    write_model(arguments.folder, arguments.layers, arguments.width, arguments.vocabulary)
    write_tokenizer(arguments.folder, arguments.vocabulary)


if __name__ == "__main__":
    main()
