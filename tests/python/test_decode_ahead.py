# SPDX-License-Identifier: Apache-2.0
"""Decode steps that the card begins before they are asked for (sendnn/decode_ahead.py)."""

import json

import pytest
import torch
from test_paged_cache import BLOCK, MODEL, STEP, Both, Decoder, _step, fresh, operators
from torch_spyre.sendnn import decode_ahead, recording, resident

__all__ = ["fresh", "operators"]  # fixtures of this module, too
WORDS = 300


class Writer(Decoder):
    """Takes tokens, gives logits."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, MODEL)

    def forward(self, tokens, *rest):
        x, new = super().forward(self.words(tokens), *rest)
        return torch.nn.functional.linear(x, self.words.weight).float() / 16, new


@pytest.fixture
def begun(monkeypatch):
    """Of each step that was looked for, whether it had been begun."""
    found = []
    original = decode_ahead.Ahead.take

    def take(self, args):
        step = original(self, args)
        found.append(step is not None)
        return step

    monkeypatch.setattr(decode_ahead.Ahead, "take", take)
    return found


class Served:
    """Two sequences whose steps follow one another; `choose` makes tokens of logits."""

    def __init__(self, length=3):
        torch.manual_seed(3)
        self.both, self.tokens, self.length = Both(Writer()), torch.tensor([[5], [7]]), length

    def step(self, choose=lambda logits: logits.argmax(-1), tables=([1, 2], [3, 4])):
        _, *rest = _step(list(tables), [self.length, self.length], [0, 0])
        result = self.both.call((self.tokens, *rest), STEP)
        self.tokens, self.length = choose(result), self.length + 1


def _rows(both):
    return [resident.cache_rows(cache).cpu() for pair in both.card for cache in pair]


def _recorded(path):
    return [json.loads(line)["card_us"] for line in path.read_text().splitlines()]


def test_steps_of_a_greedy_program_are_begun_ahead(begun, monkeypatch, tmp_path):
    """And are recorded with their own time on the card; one that begins a block is not begun, since
    tables name the block only then."""
    monkeypatch.setenv("SPYRE_SENDNN_STEPS", str(tmp_path / "steps"))
    monkeypatch.setattr(recording, "_recorder", None)
    served = Served(length=BLOCK - 7)
    for _ in range(8):
        served.step(tables=([1, 0], [3, 0]))
    # the first call has nothing to learn from, the second gives growth, two are told
    assert begun == [False] * 4 + [True] * 4, begun
    times = _recorded(tmp_path / "steps")
    assert times[4:] == pytest.approx([times[3]] * 4, rel=0.02)
    assert served.length == BLOCK + 1
    served.step(tables=([1, 9], [3, 8]))
    assert not begun[-1]


def test_a_step_that_was_told_wrongly_is_dropped(begun):
    """Other tokens than those of the largest logits, weights that change, a store of another call:
    results are those of the call, and a dropped step leaves nothing in the cache."""
    served = Served()

    def serve_until_begun():
        count = len(begun)
        while len(begun) < count + 10 and not (len(begun) > count + 2 and begun[-1]):
            served.step()
        assert begun[-1]

    serve_until_begun()
    served.tokens = (served.tokens + 1) % WORDS
    before, row = _rows(served.both), served.length - 1
    served.step()
    changed = {i for old, new in zip(before, _rows(served.both), strict=True)
               for i in (old != new).any(1).nonzero().flatten().tolist()}  # fmt: skip
    assert changed == {BLOCK + row, 3 * BLOCK + row} and not begun[-1]
    serve_until_begun()
    with torch.no_grad():
        served.both.model.words.weight.mul_(-1)
    served.step()
    assert not begun[-1]
    serve_until_begun()
    served.both.call((torch.tensor([[9]]), *_step([[5, 6]], [4], [0])[1:]))
    served.step()
    assert begun[-2:] == [False, False]


def test_a_program_that_samples_is_seldom_looked_at(begun, monkeypatch):
    looks = []
    original = decode_ahead.Ahead._learns
    monkeypatch.setattr(decode_ahead.Ahead, "_learns", lambda *a: looks.append(1) or original(*a))
    served = Served()
    for _ in range(24):
        served.step(lambda logits: logits.argmin(-1))
    assert not any(begun) and 1 <= len(looks) <= 4, (sum(begun), len(looks))
