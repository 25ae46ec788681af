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

# Of options.only, options.no_inductor and the host's peak.
SECTIONS = {
    "operations": lambda o, peak: operations.run(o.only, not o.no_inductor, peak),
    "breadth": lambda o, _: breadth.run(o.only, not o.no_inductor),
    "eager": lambda o, _: breadth.run_eager(o.only),
    "large": lambda o, _: breadth.run(o.only, inductor=False, factor=4),
    "minilm": lambda o, peak: minilm.run(o.only, not o.no_inductor, peak),
    "memory": lambda o, _: compilation.memory(o.only),
} | {
    name: lambda o, _, section=section: section.run(o.only)
    for name, section in {
        "dispatch": dispatch, "copies": copies, "beside": beside, "compile": compilation,
        "sticks": restickify, "timing": timing, "plans": plans, "import": imports,
        "comm": collectives, "backend": backend, "kernels": kernels,
    }.items()
}  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--section", nargs="+", choices=SECTIONS, default=list(SECTIONS))
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
        results["tables"][name] = SECTIONS[name](options, peak)
        if options.json:  # after every section: what was measured is kept
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    compare.report(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
