# SPDX-License-Identifier: Apache-2.0
"""aiu-fms-testing-utils with paged attention on the card against its own run on the CPU. Long: run
by `make test-serving`."""

import random

import environment
import pytest
import torch
from environment import ROOT, run

environment.need()
pytestmark = pytest.mark.long

NEAR = 0.02  # of logits: of the card's and of those of fp32
TIE = 2 * NEAR  # between the two best ones


@pytest.fixture(scope="module", params=[0, 128], ids=["whole prompts", "chunks"])
def found(request, model, tmp_path_factory):
    """What fms_paged.py found in fp32 on the CPU, and on the card."""
    folder = tmp_path_factory.mktemp("fms")
    for backend, dtype in (("none", "float32"), ("sendnn", "float16")):
        out = folder / backend
        run(ROOT / "tests/serving/fms_paged.py", model, backend, dtype, str(request.param), out)
    return torch.load(folder / "none"), torch.load(folder / "sendnn")


def test_logits_are_near_those_of_fp32_until_tokens_part_at_a_tie(found):
    """Sequences of one, two and three blocks in one batch, each padded on its left."""
    host, card = found
    for b, (theirs, ours) in enumerate(zip(host["tokens"], card["tokens"], strict=True)):
        parted = (theirs != ours).nonzero().flatten().tolist()
        steps = parted[0] + 1 if parted else len(theirs)
        wanted, given = (x["logits"][:steps, b] for x in (host, card))
        torch.testing.assert_close(given, wanted, atol=NEAR, rtol=0)
        if parted:
            best = wanted[-1].topk(2)
            assert best.values[0] - best.values[1] < TIE
            assert int(ours[parted[0]]) == best.indices[1]


@pytest.mark.parametrize(
    "of_card",
    [
        ["--attention_type", "paged", "--compile_dynamic", "--compile_dynamic_sendnn"],
        ["--attention_type", "paged"],
        ["--attention_type", "sdpa"],
    ],
    ids=["paged, dynamic", "paged, static", "sdpa"],
)
def test_inference_gives_the_text_of_the_cpu(of_card, model, tmp_path):
    random.seed(1)
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    for i, length in enumerate((40, 129, 70)):
        words = (f"w{random.randrange(1000)}" for _ in range(length))
        (prompts / f"{i}.txt").write_text(" ".join(words))

    def texts(name, *options):
        run("-m", "aiu_fms_testing_utils.scripts.inference", "--architecture=hf_pretrained",
            "--model_path", model, "--tokenizer", model, "--prompt_path", prompts,
            "--batch_size=3", "--min_pad_length=192", "--max_new_tokens=8", "--deterministic",
            "--no_early_termination", "--output_path", tmp_path / name, *options,
            AIU_WORLD_RANK_0="0", HF_HUB_OFFLINE="1")  # fmt: skip
        return [(tmp_path / name / f"{i}.txt").read_text() for i in range(3)]

    of_cpu = texts("cpu", "--device_type=cpu", "--default_dtype=fp32", "--attention_type=paged")
    card = ["--device_type=aiu-senulator", "--default_dtype=fp16", "--compile", *of_card]
    assert texts("card", *card) == of_cpu
