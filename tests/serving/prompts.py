# SPDX-License-Identifier: Apache-2.0
"""Prompts of made-up words, as the scripts of aiu-fms-testing-utils read them."""

from __future__ import annotations

import json
import pathlib
import random

LENGTHS = (30, 60, 100, 150, 200, 240, 300, 400)


def words(count: int, seed: int) -> str:
    chosen = random.Random(seed)
    return " ".join(f"w{chosen.randrange(1000)}" for _ in range(count))


def write_conversations(file: pathlib.Path) -> None:
    """Sixty of a question and an answer, in ShareGPT's form."""
    said = [{"id": str(n), "conversations": [
                {"from": "human", "value": words(LENGTHS[n % len(LENGTHS)], n)},
                {"from": "gpt", "value": "w1"}]}
            for n in range(60)]  # fmt: skip
    file.write_text(json.dumps(said))
