# SPDX-License-Identifier: Apache-2.0
"""What a call costs when there is almost nothing to compute, eager and compiled."""

import torch
import torch.nn.functional as F
from harness import Table, best_ms, on_card

MANY = 100  # operands of the compiled function


def _sum_of_many(*operands):
    total = operands[0]
    for operand in operands[1:]:
        total = total + operand
    return total


CASES = {
    "add 4": (torch.add, [(4,), (4,)]),
    "add 64x64": (torch.add, [(64, 64), (64, 64)]),
    "relu 64x64": (F.relu, [(64, 64)]),
    "matmul 64^3": (torch.matmul, [(64, 64), (64, 64)]),
}


def run(only: str) -> dict[str, dict[str, float]]:
    table = Table("Dispatch, microseconds a call", ["spyre us", "fp16 us", "launch us"])
    for name, (function, shapes) in CASES.items():
        if only in f"eager {name}":
            table.add(f"eager {name}", _eager(function, shapes))
    name = f"compiled, {MANY} operands"
    if only in name:
        table.add(name, _compiled())
    return table.rows


def _eager(function, shapes) -> dict[str, float]:
    """`spyre us` ends with the result, `launch us` when the call returns."""
    operands = [torch.randn(shape, dtype=torch.float16) for shape in shapes]
    card = [x.to("spyre") for x in operands]
    times = best_ms(
        {
            "spyre us": on_card(function, *card),
            "launch us": lambda: function(*card),
            "fp16 us": lambda: function(*operands),
        }
    )
    return {name: ms * 1e3 for name, ms in times.items()}


def card_call(name: str):
    """The eager case of CASES, or the compiled one of many operands (`name` "compiled")."""
    if name == "compiled":
        compiled, card, _operands = _compiled_call()
        return on_card(compiled, *card)
    function, shapes = CASES[name]
    card = [torch.randn(shape, dtype=torch.float16).to("spyre") for shape in shapes]
    return on_card(function, *card)


def _compiled_call():
    operands = [torch.randn(4, dtype=torch.float16) for _ in range(MANY)]
    return torch.compile(_sum_of_many, dynamic=False), [x.to("spyre") for x in operands], operands


def _compiled() -> dict[str, float]:
    compiled, card, operands = _compiled_call()
    times = best_ms(
        {
            "spyre us": on_card(compiled, *card),
            "launch us": lambda: compiled(*card),
            "fp16 us": lambda: _sum_of_many(*operands),
        }
    )
    return {name: ms * 1e3 for name, ms in times.items()}
