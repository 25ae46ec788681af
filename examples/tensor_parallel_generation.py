# SPDX-License-Identifier: Apache-2.0
"""A Llama divided between cards by tensor parallelism, and its tokens beside those of one card:

    torchrun --nproc-per-node=4 examples/tensor_parallel_generation.py

Each rank has some heads of each attention and some columns of each MLP; two all-reduces a layer add
what the ranks computed. The model is small and random: the numbers mean nothing."""

import copy

import torch
import torch.distributed as dist
import torch_spyre
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS, TOKENS = 2, 8
dist.init_process_group("cpu:gloo,spyre:spyreccl")
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)  # the same weights on every rank
config = LlamaConfig(
    vocab_size=256, hidden_size=256, intermediate_size=512, num_hidden_layers=LAYERS,
    num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=64,
)  # fmt: skip
model = LlamaForCausalLM(config).half().eval().to("spyre")
prompt = torch.tensor([[1, 17, 5, 99]]).to("spyre")


def generate(llama: LlamaForCausalLM) -> list[int]:
    with torch.no_grad(), torch_spyre.fallback("silent"):  # sampling and masks run on the host
        out = llama.generate(prompt, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0)
    return out[0].tolist()


plan = {}
for layer in range(LAYERS):
    for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"):
        plan[f"model.layers.{layer}.{part}"] = ColwiseParallel()
    for part in ("mlp.gate_proj", "mlp.up_proj"):
        plan[f"model.layers.{layer}.{part}"] = ColwiseParallel()
    for part in ("self_attn.o_proj", "mlp.down_proj"):
        plan[f"model.layers.{layer}.{part}"] = RowwiseParallel()

of_one_card = generate(copy.deepcopy(model))
divided = generate(parallelize_module(model, init_device_mesh("spyre", (size,)), plan))
if rank == 0:
    print(f"one card:  {of_one_card}\n{size} cards:   {divided}")
    print(f"the same tokens: {divided == of_one_card}")
dist.destroy_process_group()
