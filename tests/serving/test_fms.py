# SPDX-License-Identifier: Apache-2.0
"""aiu-fms-testing-utils with paged attention on the card against its own run on the CPU. Long: run
by `make test-serving`."""

import json
import random

import environment
import pytest
import torch
from environment import ROOT, SERVE, run
from prompts import words, write_conversations

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


def test_eight_bits_are_as_near_to_fp32_as_on_the_cpu(model, eight_bits, tmp_path):
    """Weights, activations and KV cache. Roundings that go the other way part the tokens soon."""
    logits = []
    for folder, backend, dtype in (
        (model, "none", "float32"), (eight_bits, "none", "fp8"), (eight_bits, "sendnn", "fp8"),
    ):  # fmt: skip
        out = tmp_path / f"{backend} {dtype}"
        run(ROOT / "tests/serving/fms_paged.py", folder, backend, dtype, "0", out)
        logits.append(torch.load(out)["logits"][0])
    exact, host, card = logits
    of_host, of_card = ((x - exact).pow(2).mean(-1).sqrt() for x in (host, card))
    assert (of_card < 1.2 * of_host).all() and (of_host < 0.25 * exact.std(-1)).all()


SCRIPTS = "aiu_fms_testing_utils.scripts"
OF_CARD = ["--device_type=aiu-senulator", "--default_dtype=fp16"]


@pytest.mark.parametrize("level", [0, 1])
def test_validation_passes(level, model, tmp_path):
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "0.txt").write_text(words(40, 1))
    # Of random weights the entropy of a token is about the logarithm of the vocabulary.
    done = run("-m", f"{SCRIPTS}.validation", *OF_CARD, "--architecture=hf_pretrained",
               "--model_path", model, "--tokenizer", model, "--unfuse_weights", "--batch_size=1",
               "--min_pad_length=64", "--max_new_tokens=5", "--prompt_path", prompts,
               "--compile_dynamic", f"--validation_level={level}", "--logits_loss_threshold=7.5",
               AIU_WORLD_RANK_0="0", HF_HUB_OFFLINE="1")  # fmt: skip
    assert "The validation has passed!" in done.stdout


@pytest.mark.parametrize("chunk", [0, 128])
@pytest.mark.parametrize("kind", ["tokens", "metrics"])
def test_all_programs_of_a_criteria_file_pass(kind, chunk, model, tmp_path):
    programs = [
        {"max_batch": 4, "max_tkv": 256, "batch_granularity": 1, "tkv_granularity": 64},
        {"max_batch": 2, "max_tkv": 512, "batch_granularity": 2, "tkv_granularity": 128},
    ]
    (tmp_path / "criteria.json").write_text(json.dumps({"programs": programs}))
    write_conversations(tmp_path / "sharegpt.json")
    done = run("-m", f"{SCRIPTS}.drive_paged_programs", "--model_variant", model,
               "--program_criteria_json_path", tmp_path / "criteria.json",
               "--dataset_path", tmp_path / "sharegpt.json", "--max_new_tokens=4",
               "--attention_type=paged", "--test_type", kind, "--cross_entropy_threshold=8",
               "--prefill_chunk_size", str(chunk), AIU_WORLD_RANK_0="0", HF_HUB_OFFLINE="1",
               VLLM_DT_MAX_CONTEXT_LEN="512", VLLM_DT_MAX_BATCH_SIZE="4",
               VLLM_DT_MAX_BATCH_TKV_LIMIT="1024")  # fmt: skip
    assert "all tests passed" in done.stdout


def test_an_encoder_has_the_words_of_the_cpu(tmp_path):
    run(ROOT / "tests/serving/small_models.py", "roberta", tmp_path)

    def found(*options):
        done = run("-m", f"{SCRIPTS}.run_encoders", "--architecture=hf_pretrained",
                   "--model_path", tmp_path, "--tokenizer", tmp_path, "--unfuse_weights", *options,
                   AIU_WORLD_RANK_0="0", HF_HUB_OFFLINE="1")  # fmt: skip
        return [line for line in done.stdout.splitlines() if " | 0." in line][-5:]

    expected = found("--device_type=cpu", "--default_dtype=fp32")
    assert len(expected) == 5 and found(*OF_CARD, "--compile") == expected


def test_two_ranks_of_a_tensor_parallel_model():
    """The script checks no number: tests/python/test_compiled_collectives.py does."""
    script = next(SERVE.glob("lib/*/site-packages/aiu_fms_testing_utils/scripts/small-toy.py"))
    done = run("-m", "torch.distributed.run", "--nproc-per-node=2", script, "--backend", "aiu",
               AIU_WORLD_RANK_0="0", AIU_WORLD_RANK_1="1")  # fmt: skip
    assert "Done" in done.stdout


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


@pytest.mark.parametrize("kind", ["math_fp8", "paged_fp8"])
def test_inference_of_eight_bits_runs(kind, eight_bits, tmp_path):
    (tmp_path / "prompts").mkdir()
    for i, length in enumerate((40, 129)):
        (tmp_path / "prompts" / f"{i}.txt").write_text(words(length, i))
    run("-m", f"{SCRIPTS}.inference", "--architecture=hf_pretrained", "--model_path", eight_bits,
        "--tokenizer", eight_bits, "--prompt_path", tmp_path / "prompts", "--batch_size=2",
        "--min_pad_length=192", "--max_new_tokens=4", "--no_early_termination",
        "--unfuse_weights", "--output_path", tmp_path / "out", "--device_type=aiu-senulator",
        "--compile", "--attention_type", kind, AIU_WORLD_RANK_0="0",
        HF_HUB_OFFLINE="1")  # fmt: skip
    for i, length in enumerate((40, 129)):
        assert len((tmp_path / "out" / f"{i}.txt").read_text().split()[-4 - length :]) == 4 + length


def test_architectures_have_the_logits_of_fp32(tmp_path):
    """Wholly on the card."""
    run(ROOT / "tests/serving/architectures.py", tmp_path / "found")
    found = json.loads((tmp_path / "found").read_text())
    assert len(found) == 17
    assert {name: of["error"] for name, of in found.items() if not of["error"] < 0.01} == {}
    assert {name: of["host"] for name, of in found.items() if of["host"]} == {}
