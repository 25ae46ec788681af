# SPDX-License-Identifier: Apache-2.0
"""Models of images, sound, and of text beside them."""

from __future__ import annotations

import torch
import transformers
from family import (
    BATCH,
    LENGTH,
    SMALL,
    SMALL_PAIR,
    Family,
    config,
    ids,
    image,
    prompt,
    text,
)


def _vision(name: str, title: str, model: str = "", size: int = 32, **values) -> Family:
    kind = getattr(transformers, model or f"{title}Model")
    sizes = {"image_size": size, "patch_size": 8, **values}
    return Family(
        name,
        "vision",
        lambda: kind(config(title, **{**_PATCHES, **sizes})),
        lambda: {"pixel_values": image(size)},
    )


def _stages(name: str, title: str, model: str = "", size: int = 64, trains=True, **values):
    """A network of stages of falling resolution; its sizes have names of their own."""
    kind = getattr(transformers, model or f"{title}Model")
    return Family(
        name,
        "vision",
        lambda: kind(config(title, **values)),
        lambda: {"pixel_values": image(size)},
        trains=trains,
    )


def _speech(name: str, title: str, **values) -> Family:
    kind = getattr(transformers, f"{title}Model")
    sizes = {**SMALL, "conv_dim": (32, 32), "conv_stride": (5, 2), "conv_kernel": (10, 3),
             "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
             "mask_time_prob": 0.0, "mask_feature_prob": 0.0, **values}  # fmt: skip
    return Family(
        name,
        "audio",
        lambda: kind(config(title, **sizes)),
        lambda: {"input_values": torch.randn(BATCH, 800)},
    )


_PATCHES = {k: SMALL[k] for k in (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}  # fmt: skip
_TOWERS = {
    "text_config": {**SMALL, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0},
    "vision_config": {**_PATCHES, "image_size": 32, "patch_size": 8},
}
_WHISPER = {
    **SMALL_PAIR,
    "num_mel_bins": 16,
    "max_source_positions": 32,
    "max_target_positions": 64,
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
}


def _image_and_text() -> dict:
    return {**text(length=16), "pixel_values": image()}


def _llava() -> torch.nn.Module:
    made = transformers.LlavaConfig(
        vision_config={**_PATCHES, "model_type": "clip_vision_model", "image_size": 32,
                       "patch_size": 8},
        text_config={**SMALL, "model_type": "llama", "num_key_value_heads": 2},
        image_token_index=3, image_seq_length=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.LlavaForConditionalGeneration(made)


def _mistral3() -> torch.nn.Module:
    made = transformers.Mistral3Config(
        vision_config={**_PATCHES, "model_type": "pixtral", "image_size": 32, "patch_size": 8},
        text_config={**SMALL, "model_type": "mistral", "num_key_value_heads": 2},
        image_token_index=3, spatial_merge_size=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.Mistral3ForConditionalGeneration(made)


def _image_prompt(tokens: int, **more) -> dict:
    """A prompt of which the first tokens stand for the image."""
    made = prompt()
    made["input_ids"][:, 1 : 1 + tokens] = 3
    return {**made, "pixel_values": image(), **more}


VISION = [
    _vision("vit", "ViT"),
    _vision("deit", "DeiT"),
    _vision("dinov2", "Dinov2"),
    _vision("beit", "Beit", use_relative_position_bias=True),
    _vision("siglip_vision_model", "SiglipVision"),
    _vision("clip_vision_model", "CLIPVision"),
    _vision("pixtral", "PixtralVision"),
    _stages("swin", "Swin", image_size=64, patch_size=4, embed_dim=32, depths=[2, 2],
            num_heads=[2, 4], window_size=4),
    _stages("convnext", "ConvNext", hidden_sizes=[32, 64], depths=[2, 2], num_stages=2),
    _stages("resnet", "ResNet", embedding_size=32, hidden_sizes=[32, 64], depths=[2, 2],
            layer_type="basic"),
    _stages("mobilenet_v2", "MobileNetV2", depth_multiplier=0.25, image_size=64,
            output_stride=8, initializer_range=0.2, trains=False),
    _stages("mobilevit", "MobileViT", hidden_sizes=[32, 48, 64],
            neck_hidden_sizes=[8, 16, 24, 32, 40, 48, 64], num_attention_heads=4, image_size=64),
    _stages("dpt", "DPT", size=32, image_size=32, patch_size=8, hidden_size=64, num_hidden_layers=4,
            num_attention_heads=4, intermediate_size=128),
    _stages("segformer", "Segformer", num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2],
            hidden_sizes=[32, 64], num_attention_heads=[1, 2], patch_sizes=[7, 3], strides=[4, 2],
            mlp_ratios=[2, 2]),
]  # fmt: skip

AUDIO = [
    _speech("wav2vec2", "Wav2Vec2"),
    _speech("hubert", "Hubert"),
    Family(
        "whisper",
        "audio",
        lambda: transformers.WhisperForConditionalGeneration(config("Whisper", **_WHISPER)),
        lambda: {"input_features": torch.randn(BATCH, 16, 64),
                 "decoder_input_ids": ids(length=LENGTH // 2)},
        generates=True,
        labels="decoder_input_ids",
    ),
    Family(
        "audio-spectrogram-transformer",
        "audio",
        lambda: transformers.ASTModel(
            config("AST", **_PATCHES, patch_size=8, max_length=64, num_mel_bins=32,
                   frequency_stride=8, time_stride=8)),
        lambda: {"input_values": torch.randn(BATCH, 64, 32)},
    ),
]  # fmt: skip

MULTIMODAL = [
    Family("clip", "multimodal", lambda: transformers.CLIPModel(
        transformers.CLIPConfig(**_TOWERS, projection_dim=64)), _image_and_text),
    Family("siglip", "multimodal", lambda: transformers.SiglipModel(
        transformers.SiglipConfig(**_TOWERS)), _image_and_text),
    Family("chinese_clip", "multimodal", lambda: transformers.ChineseCLIPModel(
        config("ChineseCLIP", **_TOWERS, projection_dim=64)), _image_and_text),
    Family("llava", "multimodal", _llava, lambda: _image_prompt(16), generates=True,
           labels="input_ids"),
    Family("mistral3", "multimodal", _mistral3,
           lambda: _image_prompt(4, image_sizes=torch.tensor([[32, 32]] * BATCH)), generates=True,
           labels="input_ids"),
]  # fmt: skip
