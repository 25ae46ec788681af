# SPDX-License-Identifier: Apache-2.0
"""A first table of speeds: operations and MiniLM on the emulated card beside PyTorch eager on the
CPU, measured in the same run on the same threads.

    python bench/run.py [--json FILE] [--only NAME]

Every row is the best of several runs after warm-up; operands are on their device already, results
stay there. The ratio columns say how many times faster the emulated card is (below 1: slower).
Machines are noisy: compare ratios of one run, never times of two.
"""

import argparse
import json
import os
import pathlib
import platform
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))


def operations():
    """name -> (function, operand shapes)"""
    cases = {}
    for n in (256, 512, 1024):
        cases[f"matmul {n}^3"] = (torch.matmul, [(n, n), (n, n)])
    cases["matmul 1x4096x4096"] = (torch.matmul, [(1, 4096), (4096, 4096)])
    cases["add 2048x2048"] = (torch.add, [(2048, 2048), (2048, 2048)])
    cases["gelu 2048x2048"] = (F.gelu, [(2048, 2048)])
    cases["softmax 4096x512"] = (lambda x: torch.softmax(x, -1), [(4096, 512)])
    cases["layer_norm 4096x384"] = (
        lambda x, w, b: F.layer_norm(x, [384], w, b),
        [(4096, 384), (384,), (384,)],
    )
    cases["attention 8x12x128x64"] = (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        [(8, 12, 128, 64)] * 3,
    )
    cases["add 4"] = (torch.add, [(4,), (4,)])
    return cases


def best_ms(function, synchronize=lambda: None, seconds=0.6) -> float:
    function()
    synchronize()
    best, end, runs = float("inf"), time.perf_counter() + seconds, 0
    while runs < 3 or (time.perf_counter() < end and runs < 2000):
        begin = time.perf_counter()
        function()
        synchronize()
        best = min(best, time.perf_counter() - begin)
        runs += 1
    return best * 1e3


def measure_operation(function, shapes):
    torch.manual_seed(0)
    operands = [torch.randn(shape) for shape in shapes]
    half = [x.half() for x in operands]
    card = [x.to("spyre") for x in half]
    compiled = torch.compile(function, dynamic=False)
    return {
        "card_ms": best_ms(lambda: compiled(*card), torch.spyre.synchronize),
        "fp32_ms": best_ms(lambda: function(*operands)),
        "fp16_ms": best_ms(lambda: function(*half)),
        "modelled_us": last_card_us(),
    }


def last_card_us() -> float:
    import torch_spyre

    return torch_spyre.last_report().card_us


def measure_minilm(batch: int, length: int):
    import semantic_search as search

    model = search.load_model()[1]
    on_cpu, half = search.Embedder(model), search.Embedder(search.load_model()[1].half())
    module = search.Embedder(search.load_model()[1].half().to("spyre"))
    on_card = torch.compile(module, dynamic=False)
    ids = torch.randint(1000, 20000, (batch, length))
    mask = torch.ones_like(ids)
    card = (ids.to("spyre"), mask.to("spyre"))
    return {
        "card_ms": best_ms(lambda: on_card(*card), torch.spyre.synchronize),
        "fp32_ms": best_ms(lambda: on_cpu(ids, mask)),
        "fp16_ms": best_ms(lambda: half(ids, mask)),
        "modelled_us": last_card_us(),
    }


def rows(only: str | None):
    for name, (function, shapes) in operations().items():
        if not only or only in name:
            yield name, lambda f=function, s=shapes: measure_operation(f, s)
    for batch, length in ((1, 128), (32, 128)):
        name = f"MiniLM-L6 {batch}x{length}"
        if not only or only in name:
            yield name, lambda b=batch, n=length: measure_minilm(b, n)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, help="also write the table there")
    parser.add_argument("--only", help="rows whose name contains this")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    host = {
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
    }
    print(f"host: {host}")
    print(
        f"{'':24s}{'card ms':>10s}{'fp32 ms':>10s}{'fp16 ms':>10s}{'x fp32':>8s}{'x fp16':>8s}"
        f"{'modelled us':>13s}"
    )
    table = {}
    for name, measure in rows(options.only):
        row = table[name] = measure()
        row["x_fp32"] = row["fp32_ms"] / row["card_ms"]
        row["x_fp16"] = row["fp16_ms"] / row["card_ms"]
        print(
            f"{name:24s}{row['card_ms']:10.3f}{row['fp32_ms']:10.3f}{row['fp16_ms']:10.3f}"
            f"{row['x_fp32']:8.2f}{row['x_fp16']:8.2f}{row['modelled_us']:13.1f}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps({"host": host, "rows": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
