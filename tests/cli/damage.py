# SPDX-License-Identifier: Apache-2.0
"""Seeded damage to files, of the kinds that a hand or a broken program does."""

import random
import re

TOKEN = re.compile(r'"[^"\n]*"|[\w.]+|\s+|.', re.DOTALL)
NUMBERS = (
    ["0", "1", "-1", "3", "64", "65", "65536", "2147483648", "4294967296", "1099511627776"]
    + ["9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e400", "nan"]
)  # fmt: skip
GROUP = re.compile(r"\([^()\n]+\)|\[[^\[\]]+\]|\{[^{}]+\}")


def _drop(tokens, at, _other, _chance):
    del tokens[at]


def _repeat(tokens, at, _other, _chance):
    tokens.insert(at, tokens[at])


def _swap(tokens, at, _other, chance):
    other = chance.randrange(len(tokens))
    tokens[at], tokens[other] = tokens[other], tokens[at]


def _number(tokens, at, _other, chance):
    places = [n for n, token in enumerate(tokens) if token[:1].isdigit()]
    if places:
        tokens[chance.choice(places)] = chance.choice(NUMBERS)


def _foreign(tokens, at, other, chance):
    tokens[at] = chance.choice(other)


CHANGES = (_drop, _repeat, _swap, _number, _number, _foreign)


def damaged_text(text, other, chance):
    """Some tokens of a text dropped, doubled, swapped, replaced, or a list emptied, or lines of
    another text behind the first ones of this."""
    kind = chance.randrange(8)
    if kind == 0 and (groups := list(GROUP.finditer(text))):
        group = chance.choice(groups)
        return text[: group.start() + 1] + text[group.end() - 1 :]
    if kind == 1:
        lines, others = text.splitlines(True), other.splitlines(True)
        return "".join(lines[: chance.randrange(len(lines))] + others[-chance.randrange(5) :])
    tokens, others = TOKEN.findall(text), TOKEN.findall(other)
    for _ in range(1 + chance.randrange(3)):
        chance.choice(CHANGES)(tokens, chance.randrange(len(tokens)), others, chance)
    return "".join(tokens)


def damaged_bytes(data, chance):
    """Bytes cut short, inverted, dropped, or words replaced by extreme ones."""
    at = chance.randrange(len(data))
    word = chance.choice((b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f", b"\0" * 7 + b"\x80"))
    return chance.choice(
        (
            data[:at],
            data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :],
            data[:at] + data[at + 1 :],
            data[: at // 8 * 8] + word + data[at // 8 * 8 + 8 :],
            data + data[:at],
        )
    )


def damaged(data, other, seed):
    """`data` (bytes) damaged, the same for the same seed; `other` is a file of the same kind."""
    chance = random.Random(seed)
    try:
        text, second = data.decode(), other.decode()
    except UnicodeDecodeError:
        return damaged_bytes(data, chance)
    if "\0" in text or chance.random() < 0.2:
        return damaged_bytes(data, chance)
    return damaged_text(text, second, chance).encode()
