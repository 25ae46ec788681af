# SPDX-License-Identifier: Apache-2.0
"""Transfers with conversion, beside PyTorch's own fp16 `copy_` of as many elements, and one of as
many bytes as host and card move together."""

import torch
from harness import Table, best_ms, on_card

ELEMENTS = {"64 Ki": 1 << 16, "4 Mi": 1 << 22, "64 Mi": 1 << 26}
DTYPES = (torch.float16, torch.float32, torch.bfloat16, torch.int64)
COLUMN = 1024  # elements of a row


def run(only: str) -> dict[str, dict[str, float]]:
    columns = ["to card ms", "to host ms", "fp16 copy", "bytes copy", "to / copy", "host / copy"]
    table = Table("Transfers, milliseconds", columns, width=12)
    for size, elements in ELEMENTS.items():
        for dtype in DTYPES:
            name = f"copy {size} {str(dtype).removeprefix('torch.')}"
            if only in name:
                table.add(name, _measure(elements, dtype))
    return table.rows


def card_call(elements: int, dtype: torch.dtype):
    """A transfer to the card and back."""
    host = torch.ones(elements // COLUMN, COLUMN, dtype=dtype)
    back, card = torch.empty_like(host), host.to("spyre")
    return lambda: back.copy_(card.copy_(host))


def _measure(elements: int, dtype: torch.dtype) -> dict[str, float]:
    host = torch.ones(elements // COLUMN, COLUMN, dtype=dtype)
    back, card = torch.empty_like(host), host.to("spyre")
    half = torch.ones(elements // COLUMN, COLUMN, dtype=torch.float16)
    into = torch.empty_like(half)
    moved = torch.ones(_bytes_moved(elements, dtype) // 2, dtype=torch.uint8)
    moved_to = torch.empty_like(moved)
    row = best_ms(
        {
            "to card ms": on_card(card.copy_, host),
            "to host ms": on_card(back.copy_, card),
            "fp16 copy": lambda: into.copy_(half),
            "bytes copy": lambda: moved_to.copy_(moved),
        }
    )
    row["to / copy"] = row["to card ms"] / row["fp16 copy"]
    row["host / copy"] = row["to host ms"] / row["fp16 copy"]
    return row


def _bytes_moved(elements: int, dtype: torch.dtype) -> int:
    on_card = min(dtype.itemsize, 4)  # int64 is int32 there
    return elements * (dtype.itemsize + on_card)
