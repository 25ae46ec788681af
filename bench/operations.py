# SPDX-License-Identifier: Apache-2.0
"""Single operations and small blocks: compiled for the emulated card, beside PyTorch on the CPU."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from harness import COLUMNS, OURS, Table, agreement, measured, on_card

LEAST_AGREEMENT = 0.999


@dataclass
class Case:
    function: Callable
    shapes: list[tuple[int, ...]]
    into: Callable | None = None  # f(out, *operands): the CPU's form that writes where told


def linear_into(out, a, b):
    """PyTorch's fast fp16 product is that of F.linear: b is handed over transposed."""
    return F.linear(a, b.t()) if a.dtype == torch.float16 else torch.matmul(a, b, out=out)


def matmul(m: int, k: int, n: int) -> Case:
    return Case(torch.matmul, [(m, k), (k, n)], linear_into)


def attention(batch: int, heads: int, length: int, size: int) -> Case:
    shape = (batch, heads, length, size)
    return Case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [shape] * 3)


def softmax(rows: int, columns: int) -> Case:
    return Case(
        lambda x: torch.softmax(x, -1),
        [(rows, columns)],
        lambda out, x: torch.softmax(x, -1, out=out),
    )


def layer_norm(rows: int, columns: int) -> Case:
    return Case(
        lambda x, w, b: F.layer_norm(x, [columns], w, b), [(rows, columns), (columns,), (columns,)]
    )


def rms_norm(rows: int, columns: int) -> Case:
    return Case(lambda x, w: F.rms_norm(x, [columns], w), [(rows, columns), (columns,)])


def feed_forward(x, up, bias, down):
    return F.gelu(x @ up + bias) @ down


CASES = {
    "matmul 256^3": matmul(256, 256, 256),
    "matmul 512^3": matmul(512, 512, 512),
    "matmul 1024^3": matmul(1024, 1024, 1024),
    "matmul 2048^3": matmul(2048, 2048, 2048),
    "matmul 4096x384x1536": matmul(4096, 384, 1536),
    "matmul 1x4096x4096": matmul(1, 4096, 4096),
    "bmm 96x256x64x256": Case(torch.bmm, [(96, 256, 64), (96, 64, 256)]),
    "add 4096x4096": Case(
        torch.add, [(4096, 4096)] * 2, lambda out, a, b: torch.add(a, b, out=out)
    ),
    "gelu 4096x4096": Case(F.gelu, [(4096, 4096)]),
    "silu * gate 4096x2048": Case(lambda x, y: F.silu(x) * y, [(4096, 2048)] * 2),
    "sum rows 4096x4096": Case(lambda x: x.sum(-1), [(4096, 4096)]),
    "softmax 4096x512": softmax(4096, 512),
    "softmax 4096x2048": softmax(4096, 2048),
    "layer_norm 4096x384": layer_norm(4096, 384),
    "layer_norm 4096x1024": layer_norm(4096, 1024),
    "rms_norm 4096x2048": rms_norm(4096, 2048),
    "attention 8x12x128x64": attention(8, 12, 128, 64),
    "attention 8x12x256x64": attention(8, 12, 256, 64),
    "feed-forward 4096x384": Case(feed_forward, [(4096, 384), (384, 1536), (1536,), (1536, 384)]),
}


def run(only: str, inductor: bool, peak_gflops: float | None) -> dict[str, dict[str, float]]:
    table = Table("Operations, milliseconds", [*COLUMNS, "card us"])
    for name, case in CASES.items():
        if only in name:
            table.add(name, _measure(case, inductor, peak_gflops))
    return table.rows


def card_call(case: Case) -> tuple[Callable[[], object], list[torch.Tensor]]:
    """The compiled case on the card and its operands on the host, in fp32; the results agree."""
    torch.manual_seed(0)
    torch._dynamo.reset()  # every case compiles anew, however many came before
    operands = [torch.randn(shape) / shape[-1] ** 0.25 for shape in case.shapes]
    card = [x.half().to("spyre") for x in operands]
    compiled = torch.compile(case.function)
    _require_agreement(compiled(*card), case.function(*operands))
    return on_card(compiled, *card), operands


def _measure(case: Case, inductor: bool, peak_gflops: float | None) -> dict[str, float]:
    import torch_spyre

    call, operands = card_call(case)
    contestants = {OURS: call, **dict(_on_cpu(case, operands))}
    if inductor:
        own = torch.compile(case.function, backend="inductor")
        contestants["inductor"] = lambda: own(*operands)
    row = measured(contestants, case.function, operands, peak_gflops)
    row["card us"] = torch_spyre.last_report().card_us
    return row


def _on_cpu(case: Case, operands: list[torch.Tensor]) -> Iterator[tuple[str, Callable]]:
    for name, dtype in (("fp32", None), ("fp16", torch.float16), ("bf16", torch.bfloat16)):
        own = [x.to(dtype) if dtype else x for x in operands]
        if case.into is None:
            yield name, lambda own=own: case.function(*own)
            continue
        if name == "fp16" and case.into is linear_into:
            own[1] = own[1].t().contiguous().t()
        out = torch.empty_like(case.function(*[x.float() for x in own]), dtype=dtype)
        yield name, lambda own=own, out=out: case.into(out, *own)


def _require_agreement(ours: torch.Tensor, reference: torch.Tensor) -> None:
    cosine = agreement(ours, reference)
    if not cosine >= LEAST_AGREEMENT:
        raise SystemExit(f"bench: a result agrees with PyTorch's by {cosine:.6f} only")
