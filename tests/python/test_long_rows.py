# SPDX-License-Identifier: Apache-2.0
"""Rows that fill what a row fusion keeps, alone or with others, have the bits of exact mode."""

import os
import subprocess
import sys

ROWS = """
import random, torch, torch.nn.functional as F
random.seed(7), torch.manual_seed(7)
FUNCTIONS = [
    lambda x: F.softmax(x, -1),
    lambda x: F.log_softmax(x, -1),
    lambda x: F.leaky_relu(x) * x + x.abs(),
    lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: (x.float() * 1.5).half() - x,
    lambda x: torch.where(x > 0, x * 2, x - 1),
]
for columns in (65, 1000, 24600, 32000, 40000):
    for function in random.sample(FUNCTIONS, 2):
        x = torch.randn(random.randint(1, max(2, 30000 // columns)), columns).half().relu()
        y = torch.compile(function)(x.to("spyre")).cpu()
        print(hash(tuple(y.view(torch.int16).flatten().tolist())))
        torch._dynamo.reset()
"""


def results(mode: str) -> list[str]:
    environment = os.environ | {"SPYRE_CARD_MODE": mode}
    run = subprocess.run(
        [sys.executable, "-c", ROWS], env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


def test_rows_of_any_length_are_those_of_exact_execution():
    fast = results("fast")
    assert len(fast) == 10 and fast == results("exact")
