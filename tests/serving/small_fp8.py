# SPDX-License-Identifier: Apache-2.0
"""small_fp8.py MODEL FOLDER: a model of examples/serve_model.py with the weights of its layers in
float8_e4m3fn, in the format `compressed-tensors`: a scale for each row, and activations rounded to
eight bits with a scale for each token."""

import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

LARGEST = torch.finfo(torch.float8_e4m3fn).max

source, folder = map(pathlib.Path, sys.argv[1:])
shutil.copytree(source, folder, dirs_exist_ok=True)
weights = {}
for name, weight in load_file(source / "model.safetensors").items():
    weights[name] = weight
    if weight.dim() == 2 and ".layers." in name:
        scale = weight.float().abs().amax(1, keepdim=True) / LARGEST
        weights[name] = (weight.float() / scale).to(torch.float8_e4m3fn)
        weights[name + "_scale"] = scale
save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

numbers = {"num_bits": 8, "type": "float", "symmetric": True}
group = {
    "targets": ["Linear"],
    "weights": {**numbers, "dynamic": False, "strategy": "channel"},
    "input_activations": {**numbers, "dynamic": True, "strategy": "token"},
    "output_activations": None,
}
config = json.loads((folder / "config.json").read_text())
config["quantization_config"] = {
    "quant_method": "compressed-tensors", "quantization_status": "compressed",
    "format": "float-quantized", "ignore": ["lm_head"], "config_groups": {"group_0": group},
}  # fmt: skip
(folder / "config.json").write_text(json.dumps(config))
