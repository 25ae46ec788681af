# SPDX-License-Identifier: Apache-2.0
"""Restickify ops of transformer blocks: sticks chosen op by op, by the compiler as it is, and by
its search without a limit, which finds the optimum of the predicted time (greedy's stays when less
than 1 % is to be saved)."""

import os
import pathlib
import re
import tempfile

import torch
from blocks import blocks
from harness import Table

CHOICES: dict[str, dict[str, int | bool]] = {
    "greedy": {"global_stick_optimizer": False},
    "ours": {},
    "exact": {"stick_beam_width": 65536},
}
COLUMNS = [f"{name} {what}" for what in ("count", "KiB", "us") for name in CHOICES]

_SUMS = re.compile(
    r"^(\d+) restickifies of (\d+) bytes\nsticks: predicted ([\d.]+) us.*\n(.*?);", re.M
)


def run(only: str) -> dict[str, dict[str, float]]:
    table = Table("Restickify ops; us: predicted by the choice of sticks", [*COLUMNS, "proved"], 13)
    for name, (module, operands) in blocks().items():
        if only in f"sticks {name}":
            table.add(f"sticks {name}", _measure(module, operands))
    return table.rows


def _measure(module: torch.nn.Module, operands: list[torch.Tensor]) -> dict[str, float]:
    row: dict[str, float] = {}
    for choice, settings in CHOICES.items():
        count, size, us, optimal = _sums(module, operands, settings)
        row |= {f"{choice} count": count, f"{choice} KiB": size / 1024, f"{choice} us": us}
        row["proved"] = optimal  # of the last: 1 when it is known that no choice costs less
    return row


def _sums(module, operands, settings) -> tuple[int, int, float, bool]:
    """Of all card segments of the compiled module."""
    import torch_spyre

    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("TORCH_COMPILE_DEBUG")
        os.environ["TORCH_COMPILE_DEBUG"] = "1"
        try:
            with (
                torch._dynamo.config.patch(debug_dir_root=folder),
                torch_spyre.config.patch(settings),
            ):
                card = [x.to("spyre") for x in operands]
                torch.compile(module.to("spyre"), dynamic=False)(*card)
        finally:
            if before is None:
                del os.environ["TORCH_COMPILE_DEBUG"]
            else:
                os.environ["TORCH_COMPILE_DEBUG"] = before
        texts = [path.read_text() for path in pathlib.Path(folder).rglob("segment*.cost")]
    sums = [match for text in texts for match in _SUMS.findall(text)]
    if not sums:
        raise SystemExit("bench: a block without a part on the card")
    return (
        sum(int(count) for count, _size, _us, _known in sums),
        sum(int(size) for _count, size, _us, _known in sums),
        sum(float(us) for _count, _size, us, _known in sums),
        all(known.startswith("no choice costs") for *_rest, known in sums),
    )
