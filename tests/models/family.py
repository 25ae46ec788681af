# SPDX-License-Identifier: Apache-2.0
"""What a model family of the net is: a model made from a small configuration in code, and one batch
of inputs. Nothing is downloaded; weights are random, of the seed that the caller sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import transformers

VOCABULARY = 256
LENGTH = 24  # tokens of a prompt
BATCH = 2


@dataclasses.dataclass(frozen=True)
class Family:
    """One row of the net."""

    name: str  # as `model_type` of transformers, where there is one
    group: str  # "encoder", "decoder", "encoder-decoder", "vision", "audio", "multimodal"
    make: Callable[[], torch.nn.Module]  # weights in float32, on the CPU
    inputs: Callable[[], dict]  # keyword arguments of forward(); floating ones in float32
    generates: bool = False
    labels: str | None = None  # the input that is passed as `labels` in training, if the model
    # has a loss of its own; else a weighted mean of the result is the loss
    static_cache: bool = True  # generate() has it for this family
    trains: bool = True  # False where rounding alone turns its gradients


def ids(batch: int = BATCH, length: int = LENGTH, first: int = 4) -> torch.Tensor:
    """Token ids above the special ones, int64 [batch, length]."""
    return torch.randint(first, VOCABULARY, (batch, length))


def text(batch: int = BATCH, length: int = LENGTH) -> dict:
    """A batch whose second row is padded on the right by a quarter."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[1:, length - length // 4 :] = 0
    return {"input_ids": ids(batch, length), "attention_mask": mask}


def prompt() -> dict:
    """A batch of prompts of one length."""
    tokens = ids()
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def image(size: int = 32, channels: int = 3, batch: int = BATCH) -> torch.Tensor:
    """float32 [batch, channels, size, size]."""
    return torch.randn(batch, channels, size, size)


def config(name: str, **values) -> transformers.PretrainedConfig:
    """`transformers.<name>Config` with small sizes of the usual names; those of `values` win. No
    dropout, so that training steps can be compared."""
    kind = getattr(transformers, f"{name}Config")
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return without_dropout(kind(**{**special, **values}))


def without_dropout(made: transformers.PretrainedConfig) -> transformers.PretrainedConfig:
    """The configuration, and those in it, with all probabilities of dropping 0."""
    for key, value in list(vars(made).items()):
        if isinstance(value, transformers.PretrainedConfig):
            without_dropout(value)
        elif isinstance(value, float) and ("drop" in key):
            setattr(made, key, 0.0)
    return made


SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}
SMALL_PAIR = {  # of an encoder and a decoder
    "vocab_size": VOCABULARY,
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "decoder_start_token_id": 1,
}
