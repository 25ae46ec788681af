# SPDX-License-Identifier: Apache-2.0
"""One model, one backend: prints {"seconds": to the first result, "peak_mib": above the imports,
and for spyre the milliseconds of the compiler's stages: "graph", "front", "back"}.

python compilation_worker.py MODEL spyre|inductor|eager
"""

import json
import os
import pathlib
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import minilm
import torch

STAGES = ("graph", "front", "back")


def _model(name: str, dtype: torch.dtype):
    """(module or function, operands on the CPU)"""
    if name == "add":
        return torch.add, [torch.randn(512, 512, dtype=dtype) for _ in range(2)]
    if name == "softmax":
        return lambda x: torch.softmax(x, -1), [torch.randn(512, 512, dtype=dtype)]
    if name == "encoder layer":
        layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dtype=dtype)
        return layer.eval(), [torch.randn(2, 64, 256, dtype=dtype)]
    batch, length = (32, 128) if "x" in name else (1, 128)
    return minilm.embedder(dtype), list(minilm.tokens(batch, length))


def _peak_mib() -> float:
    """Of this program alone: getrusage() would begin with the parent's."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _stages(on_card: bool) -> dict[str, float]:
    if not on_card:
        return {}
    import torch_spyre

    statistics = torch_spyre.compile_statistics()
    return {name: statistics[f"{name}_us"] / 1e3 for name in STAGES}


def main() -> None:
    name, backend = sys.argv[1:]
    torch.set_grad_enabled(False)
    torch.compiler.reset()
    on_card = backend == "spyre"
    start_mib = _peak_mib()
    function, operands = _model(name, torch.float16 if on_card else torch.float32)
    if on_card:
        operands = [x.to("spyre") for x in operands]
        function = function.to("spyre") if isinstance(function, torch.nn.Module) else function
    begin = time.perf_counter()
    if backend != "eager":
        function = torch.compile(function, dynamic=False, backend="inductor")
    function(*operands).cpu()
    seconds = time.perf_counter() - begin
    function(*operands).cpu()
    print(json.dumps({"seconds": seconds, "peak_mib": _peak_mib() - start_mib, **_stages(on_card)}))


if __name__ == "__main__":
    main()
