# SPDX-License-Identifier: Apache-2.0
"""Executes sample bundles of another front-end and compares the results with PyTorch on the CPU.

    python bundle_samples.py --driver build/tools/spyre_samples [--engine NAME] [case ...]

The samples lie in the folder $SPYRE_SAMPLE_BUNDLES: <case>/case.json (program, seed, launches,
device layouts) and <case>/kernel_<n>/ (bundle.mlir, sdsc_<n>.json). A case is right when at most
0.05 % of its elements are off by more than 1 % of the largest magnitude. --rewrite also reads
every bundle, writes it, and compares both as JSON and text.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

import numpy as np
import torch

MOST_WRONG = 5e-4
ELEMENT = {
    "SEN169_FP16": np.uint16,
    "IEEE_FP32": np.float32,
    "IEEE_INT32": np.int32,
    "SENUINT32": np.uint32,
}
# One-element tensors that the host fills; the cases do not record their values.
SCALARS = {
    "add_scalar": [2.5],
    "full": [3.0],
    "mm_unaligned": [0.0],
    "rmsnorm": [1e-5],
    "sdpa": [64**-0.25],
    "slice_cols": [1.0],
}


def dl16_encode(values):
    """1-6-9, bias 31, ties away from zero, finite overflow saturates (a transfer from the host)."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.int64)
    magnitude = bits & 0x7FFFFFFF
    code = (magnitude - (96 << 23) + (1 << 13)) >> 14
    code = np.clip(np.where(magnitude <= 96 << 23, 0, code), 0, 0x7FFE)
    code = np.where(magnitude >= 0x7F800000, 0x7FFF, code)
    return (code | bits >> 16 & 0x8000).astype(np.uint16)


def dl16_decode(codes):
    magnitude = (codes & 0x7FFF).astype(np.uint32)
    bits = np.where(magnitude == 0, 0, (magnitude << 14) + (96 << 23))
    bits = np.where(magnitude == 0x7FFF, 0x7F800000, bits)
    return (bits | (codes & 0x8000).astype(np.uint32) << 16).astype(np.uint32).view(np.float32)


class Image:
    """Which element of a card buffer shows which element of the host storage."""

    def __init__(self, tensor):
        self.tensor, self.format = tensor, tensor["layout"]["device_dtype"]
        sizes, steps = tensor["layout"]["device_size"], tensor["layout"]["stride_map"]
        grid = np.indices(sizes).reshape(len(sizes), -1)
        host = sum(i * step for i, step in zip(grid, steps, strict=True) if step > 0)
        shown = np.ones(grid.shape[1], bool)
        for i, step in zip(grid, steps, strict=True):
            if step < 0:
                shown &= i == 0  # the host has no such dim
        # The lanes of a row's last stick that lie behind the row.
        for length, stride in zip(tensor["shape"], tensor["stride"], strict=True):
            if stride == steps[-1] and length > 1 and length % sizes[-1]:
                lane = grid[-1].copy()
                for i, size, step in zip(grid[:-1], sizes, steps, strict=False):
                    if size == -(-length // sizes[-1]) > 1 and step == sizes[-1] * steps[-1]:
                        lane += i * sizes[-1]
                shown &= lane < length
        self.card = np.flatnonzero(shown)
        self.host = tensor["offset"] + (host + np.zeros_like(grid[0]))[shown]

    def view(self, dtype):
        tensor = self.tensor
        span = sum((n - 1) * s for n, s in zip(tensor["shape"], tensor["stride"], strict=True))
        storage = np.zeros(tensor["offset"] + span + 1, dtype)
        strides = [s * storage.itemsize for s in tensor["stride"]]
        seen = storage[tensor["offset"] :]
        return storage, np.lib.stride_tricks.as_strided(seen, tensor["shape"], strides)

    def to_card(self, values, buffer):
        storage, view = self.view(values.dtype)
        view[...] = values
        raw = storage[self.host]
        raw = dl16_encode(raw) if self.format == "SEN169_FP16" else raw.astype(ELEMENT[self.format])
        buffer.view(ELEMENT[self.format])[self.card] = raw

    def to_host(self, buffer):
        raw = buffer.view(ELEMENT[self.format])[self.card]
        values = dl16_decode(raw) if self.format == "SEN169_FP16" else raw
        storage, view = self.view(self.tensor["dtype"].removeprefix("torch."))
        with np.errstate(over="ignore"):
            storage[self.host] = values != 0 if storage.dtype == bool else values
        return view


def program_inputs(case):
    torch.manual_seed(case["seed"])
    inputs = eval(case["inputs"])
    for values, recorded in zip(inputs, case["cpu_inputs"], strict=False):
        digest = hashlib.sha256(values.contiguous().numpy().tobytes()).hexdigest()
        if digest != recorded["sha256"]:
            raise RuntimeError("this PyTorch generates other random numbers")
    return inputs


def expected_results(case, inputs):
    names = {"torch": torch}
    if case["fn"].startswith("def "):
        hints = types.ModuleType("torch_spyre._inductor")
        hints.spyre_hint = lambda **_: contextlib.nullcontext()
        modules = {"torch_spyre": types.ModuleType("torch_spyre"), hints.__name__: hints}
        saved = {name: sys.modules.get(name) for name in modules}
        sys.modules.update(modules)
        try:
            exec(case["fn"], names)
            result = names["fn"](*[x.clone() for x in inputs])
        finally:
            for name, module in saved.items():
                sys.modules.pop(name) if module is None else sys.modules.update({name: module})
    else:
        result = eval(case["fn"], names)(*[x.clone() for x in inputs])
    return list(result) if isinstance(result, tuple | list) else [result]


def card_results(driver, engine, folder, case, inputs, work):
    """Runs all launches in one process; None for an output that no launch touches."""
    buffers = {}

    def buffer_of(tensor):
        size = tensor["storage_nbytes"]
        return buffers.setdefault(tensor["storage_id"], np.zeros(size, np.uint8))

    for tensor, values in zip(case["device_inputs"], inputs, strict=False):
        Image(tensor).to_card(values.numpy(), buffer_of(tensor))
    named = {t["storage_id"] for t in case["device_inputs"] + case["outputs"]}
    folder_of = {kernel["orig"]: folder / kernel["dir"] for kernel in case["kernels"]}
    scalars, lines = iter(SCALARS.get(case["name"], [])), []
    for launch in case["launches"]:
        has_pool = launch["args"][0]["layout"]["device_dtype"] == "SENINT8"
        lines += [f"bundle {folder_of[launch['dir']]}", f"pool {int(has_pool)}"]
        for tensor in launch["args"]:
            fresh = tensor["storage_id"] not in named | buffers.keys()
            buffer = buffer_of(tensor)
            if fresh and tensor["shape"] == []:
                Image(tensor).to_card(np.array(next(scalars), np.float16), buffer)
            lines.append(f"buffer {work / tensor['storage_id']}")
        lines.append("run")
    for name, buffer in buffers.items():
        (work / name).write_bytes(buffer.tobytes())
    (work / "request").write_text("\n".join(lines) + "\n")
    command = [driver, "run", work / "request"] + ([engine] if engine else [])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    results = []
    for output in case["outputs"]:
        present = output["storage_id"] in buffers
        raw = np.fromfile(work / output["storage_id"], np.uint8) if present else None
        results.append(Image(output).to_host(raw) if present else None)
    return results


def difference(got, want):
    """(largest error over the largest magnitude, share of elements off by more than 1 % of it)."""
    got, want = got.astype(np.float64), want.double().numpy()
    finite = np.isfinite(got) & np.isfinite(want)
    magnitude = np.abs(want[finite]).max(initial=1e-6)
    error = np.abs(np.where(finite, got, 0) - np.where(finite, want, 0)) / magnitude
    off = np.where(finite, error > 0.01, got != want)
    return error.max(initial=0), off.mean()


def run_case(driver, engine, folder):
    case = json.loads((folder / "case.json").read_text())
    inputs = program_inputs(case)
    with tempfile.TemporaryDirectory() as work:
        got = card_results(driver, engine, folder, case, inputs, pathlib.Path(work))
    pairs = zip(got, expected_results(case, inputs), strict=True)
    errors = [difference(g, w) for g, w in pairs if g is not None]
    return max(e for e, _ in errors), max(s for _, s in errors)


def rewrite_kernel(driver, kernel, has_pool):
    """Names the files of a kernel that differ after reading and writing."""
    text = (kernel / "bundle.mlir").read_text()
    form = "symbolic" if "symbol_ids" in text else "absolute"
    with tempfile.TemporaryDirectory() as target:
        command = [driver, "rewrite", kernel, target, form, str(int(has_pool))]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return [done.stderr.strip()]
        copy = pathlib.Path(target)
        differ = [] if (copy / "bundle.mlir").read_text() == text else ["bundle.mlir"]
        for file in sorted(kernel.glob("sdsc_*.json")):
            if json.loads(file.read_text()) != json.loads((copy / file.name).read_text()):
                differ.append(file.name)
        files = {f.name for f in kernel.iterdir()} ^ {f.name for f in copy.iterdir()}
        return differ + sorted(f"{name} in one of them only" for name in files)


def rewrite_case(driver, folder):
    case = json.loads((folder / "case.json").read_text())
    pools = {
        launch["dir"]: launch["args"][0]["layout"]["device_dtype"] == "SENINT8"
        for launch in case["launches"]
    }
    differ = []
    for kernel in case["kernels"]:
        names = rewrite_kernel(driver, folder / kernel["dir"], pools.get(kernel["orig"], False))
        differ += [f"{kernel['dir']}/{name}" for name in names]
    return differ


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", type=pathlib.Path, required=True)
    parser.add_argument("--engine", default="", help="interpreter (default) or what the driver has")
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    root = os.environ.get("SPYRE_SAMPLE_BUNDLES")
    if not root:
        print("skipped: SPYRE_SAMPLE_BUNDLES does not name a folder of sample bundles")
        return 0
    root, wrong = pathlib.Path(root), 0
    names = options.cases or sorted(f.parent.name for f in root.glob("*/case.json"))
    for name in names:
        try:
            error, share = run_case(options.driver, options.engine, root / name)
            verdict = "right" if share <= MOST_WRONG else "WRONG"
            line = f"{name:40s} {error:10.6f} {share:10.4%}  {verdict}"
        except RuntimeError as problem:
            verdict, line = "FAILED", f"{name:40s} {re.sub(r'/[^ :]*/', '', str(problem))}"
        if options.rewrite and (differ := rewrite_case(options.driver, root / name)):
            verdict, line = "WRONG", f"{line}  rewritten: {', '.join(differ)}"
        wrong += verdict != "right"
        print(line)
    print(f"{len(names) - wrong} of {len(names)} cases right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
