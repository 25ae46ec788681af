# SPDX-License-Identifier: Apache-2.0
"""small_roberta.py FOLDER: a RoBERTa of two layers with random weights, and its tokenizer."""

import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

MARKS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
vocabulary = {word: i for i, word in enumerate([*MARKS, *(f"w{n}" for n in range(200))])}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.post_processor = processors.TemplateProcessing(
    single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
)
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
    pad_token="<pad>", mask_token="<mask>", model_max_length=128,
).save_pretrained(sys.argv[1])  # fmt: skip
torch.manual_seed(0)
config = RobertaConfig(
    vocab_size=len(vocabulary), hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=256, max_position_embeddings=130, type_vocab_size=1, pad_token_id=1,
    bos_token_id=0, eos_token_id=2, hidden_act="gelu",
)  # fmt: skip
RobertaForMaskedLM(config).save_pretrained(sys.argv[1])
