# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2 with real weights, as in examples/semantic_search.py."""

import pathlib
import sys
from collections.abc import Callable

import torch
from harness import COLUMNS, OURS, Table, agreement, measured, on_card

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))

SHAPES = ((1, 128), (32, 128))
LEAST_AGREEMENT = 0.9999


def embedder(dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.nn.Module:
    import semantic_search

    return semantic_search.Embedder(semantic_search.load_model()[1].to(dtype).to(device))


def tokens(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(1000, 20000, (batch, length))
    return ids, torch.ones_like(ids)


def card_call(batch: int, length: int) -> tuple[Callable[[], object], tuple, float]:
    """The compiled fp16 model on the card, its operands on the host, and the cosine of its results
    with those of fp32 on the CPU."""
    torch._dynamo.reset()
    operands = tokens(batch, length)
    card = tuple(x.to("spyre") for x in operands)
    compiled = torch.compile(embedder(torch.float16, "spyre"), dynamic=False)
    cosine = agreement(compiled(*card), embedder()(*operands))
    if not cosine >= LEAST_AGREEMENT:
        raise SystemExit(f"bench: MiniLM agrees with PyTorch by {cosine:.6f} only")
    return on_card(compiled, *card), operands, cosine


def run(only: str, inductor: bool, peak_gflops: float | None) -> dict[str, dict[str, float]]:
    table = Table("all-MiniLM-L6-v2, milliseconds", [*COLUMNS, "cosine", "card us"])
    for batch, length in SHAPES:
        name = f"MiniLM {batch}x{length}"
        if only in name:
            table.add(name, _measure(batch, length, inductor, peak_gflops))
    return table.rows


def _measure(
    batch: int, length: int, inductor: bool, peak_gflops: float | None
) -> dict[str, float]:
    import torch_spyre

    call, operands, cosine = card_call(batch, length)
    models = {
        "fp32": embedder(),
        "fp16": embedder(torch.float16),
        "bf16": embedder(torch.bfloat16),
    }
    contestants = {OURS: call}
    contestants |= {name: lambda m=m: m(*operands) for name, m in models.items()}
    if inductor:
        own = torch.compile(embedder(), dynamic=False, backend="inductor")
        contestants["inductor"] = lambda: own(*operands)
    row = measured(contestants, models["fp32"], operands, peak_gflops)
    return row | {"cosine": cosine, "card us": torch_spyre.last_report().card_us}
