# SPDX-License-Identifier: Apache-2.0
"""The emulated card beside PyTorch on the CPU: eager fp32, fp16, bf16 and Inductor (fp32), in one
run, on the same threads.

    python bench/run.py [--only NAME] [--section NAME ...] [--no-inductor] [--json FILE]

Times are the best of many calls that take turns; operands are where they are needed, PyTorch writes
into results that exist where an operation allows it, and keeps its freed memory everywhere. A ratio
`x ...` says how many times faster the emulated card is (below 1: slower). Machines are noisy:
compare ratios of one run, never times of two. At the end the ratios are compared with the committed
results of the same processor, bench/results/<processor>.json; `bench/turns.py` compares two builds.
"""

import argparse
import json
import pathlib
import sys

import backend
import beside
import breadth
import collectives
import compare
import compilation
import copies
import dispatch
import harness
import host
import imports
import kernels
import minilm
import operations
import plans
import restickify
import timing
import torch

SECTIONS = (
    "operations", "breadth", "minilm", "dispatch", "copies", "beside", "compile", "memory",
    "sticks", "timing", "plans", "import", "comm", "backend", "kernels",
)  # fmt: skip


def run_section(name: str, options, peak: float | None) -> dict[str, dict[str, float]]:
    inductor = not options.no_inductor
    match name:
        case "operations":
            return operations.run(options.only, inductor, peak)
        case "breadth":
            return breadth.run(options.only, inductor)
        case "minilm":
            return minilm.run(options.only, inductor, peak)
        case "dispatch":
            return dispatch.run(options.only)
        case "copies":
            return copies.run(options.only)
        case "beside":
            return beside.run(options.only)
        case "compile":
            return compilation.run(options.only)
        case "memory":
            return compilation.memory(options.only)
        case "sticks":
            return restickify.run(options.only)
        case "timing":
            return timing.run(options.only)
        case "import":
            return imports.run(options.only)
        case "comm":
            return collectives.run(options.only)
        case "backend":
            return backend.run(options.only)
        case "kernels":
            return kernels.run(options.only)
        case "plans":
            return plans.run(options.only)
        case _:
            raise ValueError(name)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--section", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--no-inductor", action="store_true", help="saves minutes of compilation")
    parser.add_argument("--json", type=pathlib.Path, help="also write host and tables there")
    return parser.parse_args()


def main() -> int:
    options = parse()
    torch.set_grad_enabled(False)
    harness.keep_freed_pages()
    description = host.describe()
    peak = host.peak_gflops()
    print("\n".join(f"{key:12s} {value}" for key, value in description.items()))
    results: dict = {"host": description, "tables": {}}
    for name in options.section:
        results["tables"][name] = run_section(name, options, peak)
        if options.json:  # after every section: what was measured is kept
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    compare.report(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
