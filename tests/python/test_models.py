# SPDX-License-Identifier: Apache-2.0
"""Small models of other families, random weights, against the CPU in fp32."""

import copy

import pytest
import torch

transformers = pytest.importorskip("transformers")


def gpt2():
    config = transformers.GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=1000)
    return transformers.GPT2Model(config)


def llama():
    config = transformers.LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=1000,
    )  # fmt: skip
    return transformers.LlamaModel(config)


@pytest.mark.parametrize("make", [gpt2, llama])
def test_decoder_matches_the_cpu_in_one_graph(make):
    model = make().eval()
    ids = torch.randint(0, 1000, (2, 40))
    on_card = copy.deepcopy(model).half().to("spyre")
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda i: on_card(i, use_cache=False).last_hidden_state, dynamic=False, fullgraph=True
    )
    with torch.no_grad():
        want = model(ids, use_cache=False).last_hidden_state
        got = compiled(ids.to("spyre")).cpu().float()
    cosine = torch.nn.functional.cosine_similarity(got, want, dim=-1)
    assert cosine.min() > 0.999
