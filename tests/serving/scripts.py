# SPDX-License-Identifier: Apache-2.0
"""The scripts of aiu-fms-testing-utils on small models of many architectures, on the card against
their own runs on the CPU in float32.

    scripts.py FOLDER [NAME ..] [--only SCRIPT ..]

FOLDER keeps the checkpoints (small_models.py) and what the scripts wrote. Prints a line of JSON for
each run: architecture, script, what was found, seconds, and the operators that the card left to the
host. Each run is a process of its own, forked from this one, which has imported what they import.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pathlib
import re
import runpy
import subprocess
import sys
import time
from collections.abc import Callable

os.environ.update(HF_HUB_OFFLINE="1", AIU_WORLD_RANK_0="0", OMP_NUM_THREADS="1",
                  VLLM_DT_MAX_CONTEXT_LEN="512", VLLM_DT_MAX_BATCH_SIZE="4",
                  VLLM_DT_MAX_BATCH_TKV_LIMIT="1024", TOKENIZERS_PARALLELISM="false")  # fmt: skip
import aiu_fms_testing_utils.testing.validation
import fms.models  # noqa: F401  (what scripts import, before they are forked)
import torch
from prompts import words, write_conversations
from small_models import ENCODERS, NAMES

MODULE = "aiu_fms_testing_utils.scripts."
FUSED = ("mixtral",)  # which ibm-fms has in no other form
CARD = ["--device_type=aiu-senulator", "--default_dtype=fp16", "--compile"]
HOST = ["--device_type=cpu", "--default_dtype=fp32"]
LENGTHS = (40, 129, 70)
NEW_TOKENS = 8
SECONDS = 600  # for one run


class Failed(Exception):
    """What a script said last."""


def run(script: str, log: pathlib.Path, *options: object) -> str:
    """The script's output."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with log.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                sys.argv = [script, *map(str, options)]
                runpy.run_module(MODULE + script, run_name="__main__")
                _say_what_ran_on_the_host()
                status = 0
        except SystemExit as ended:
            status = int(bool(ended.code))
        except BaseException as error:
            print(f"\n{type(error).__name__}: {error}", flush=True)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            os._exit(status)
    begin = time.monotonic()
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
        time.sleep(0.1)
        if time.monotonic() - begin > SECONDS:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            raise Failed(f"no end after {SECONDS} s")
    said = log.read_text(errors="replace")
    if ended[1]:
        raise Failed((said.strip() or "?").splitlines()[-1][:300])
    return said


def _say_what_ran_on_the_host() -> None:
    import torch_spyre

    print("\nON HOST:", *sorted({record.op for record in torch_spyre.fallback_report()}))


# ---- one script, one model: what was found


def inference(work: pathlib.Path, *options: str) -> str:
    prompts = work / "prompts"
    prompts.mkdir(exist_ok=True)
    for i, length in enumerate(LENGTHS):
        (prompts / f"{i}.txt").write_text(words(length, i))
    kind = [o for o in options if o.startswith("--attention_type")]
    of_cpu = _texts(work, "_".join(["cpu", *kind]), *HOST, *kind)
    of_card = _texts(work, "_".join(o.strip("-") for o in options), *CARD, *options)
    equal = sum(_equal(a, b) for a, b in zip(of_cpu, of_card, strict=True))
    return f"{equal} of {NEW_TOKENS * len(LENGTHS)} tokens"


def _texts(work: pathlib.Path, name: str, *options: str) -> list[list[str]]:
    out = work / name
    if not out.exists() or not name.startswith("cpu"):
        run("inference", work / f"{name}.log", "--architecture=hf_pretrained", *_unfused(work),
            f"--model_path={work}", f"--tokenizer={work}", f"--prompt_path={work / 'prompts'}",
            "--batch_size=3", "--min_pad_length=192", f"--max_new_tokens={NEW_TOKENS}",
            "--no_early_termination", f"--output_path={out}", *options)  # fmt: skip
    return [(out / f"{i}.txt").read_text().split()[-NEW_TOKENS:] for i in range(len(LENGTHS))]


def _unfused(work: pathlib.Path) -> list[str]:
    return [] if work.name in FUSED else ["--unfuse_weights"]


def _equal(a: list[str], b: list[str]) -> int:
    """Tokens before the first that differs."""
    return next((i for i, pair in enumerate(zip(a, b, strict=True)) if pair[0] != pair[1]), len(a))


def validation(work: pathlib.Path) -> str:
    """Level 1: the tokens of the CPU are given to the card, and the logits of each are kept."""
    one = work / "one"
    one.mkdir(exist_ok=True)
    (one / "0.txt").write_text(words(40, 1))
    kept = work / "kept"
    said = run("validation", work / "validation.log", *CARD[:2], "--architecture=hf_pretrained",
               f"--model_path={work}", f"--tokenizer={work}", *_unfused(work), "--batch_size=1",
               "--min_pad_length=64", "--max_new_tokens=5", f"--prompt_path={one}",
               "--compile_dynamic", "--validation_level=1",
               f"--logits_loss_threshold={_entropy(work)}",
               "--save_validation_info_path", kept)  # fmt: skip
    passed = "passes" if "The validation has passed!" in said else "does not pass"
    cpu, card = (torch.load(kept / of / "0.pt")["logits"].float() for of in ("cpu", "aiu"))
    apart = (cpu - card).abs().max() / cpu.abs().max()
    return f"{passed}, logits within {100 * float(apart):.1f} %"


def _entropy(work: pathlib.Path) -> float:
    """A bound on that of the tokens of random weights."""
    return math.log(json.loads((work / "config.json").read_text())["vocab_size"]) + 1


def metrics(work: pathlib.Path) -> str:
    """Of the logits that validation.py kept: of cards, and of the CPU in float32."""
    out = work / "metrics"
    out.mkdir(exist_ok=True)
    prefix = aiu_fms_testing_utils.testing.validation.get_default_validation_prefix(
        model_id=None, max_new_tokens=5, batch_size=1, seq_len=64, dtype="fp16")  # fmt: skip
    for its, ours in (("cpu", "cpu"), ("cuda", "aiu")):
        link = out / f"{prefix}.{its}_validation_info.0.out"
        if not link.exists():
            link.symlink_to(work / "kept" / ours)
    run("generate_metrics", work / "metrics.log", f"--tokenizer={work}", "--skip_computation",
        "--default_dtype=fp16", "--min_pad_length=64", "--max_new_tokens=5",
        f"--output_dir={out}", "--sharegpt_path=none")  # fmt: skip
    values = (out / f"{prefix}.diff_mean.csv").read_text().split()[1:]
    return f"differences of probabilities {max(map(float, values)):.1e}"


def programs(work: pathlib.Path) -> str:
    criteria = [{"max_batch": 4, "max_tkv": 256, "batch_granularity": 1, "tkv_granularity": 64}]
    (work / "criteria.json").write_text(json.dumps({"programs": criteria}))
    write_conversations(work / "sharegpt.json")
    found = run("drive_paged_programs", work / "programs.log", "--model_variant", work,
                "--program_criteria_json_path", work / "criteria.json", "--dataset_path",
                work / "sharegpt.json", "--max_new_tokens=4", "--attention_type=paged",
                "--test_type=metrics", f"--cross_entropy_threshold={_entropy(work)}")  # fmt: skip
    return "passes" if "all tests passed" in found else "does not pass"


def encoders(work: pathlib.Path) -> str:
    def found(name: str, *options: str) -> list[str]:
        said = run("run_encoders", work / f"{name}.log", "--architecture=hf_pretrained",
                   f"--model_path={work}", f"--tokenizer={work}", "--unfuse_weights",
                   *options)  # fmt: skip
        return [line for line in said.splitlines() if " | 0." in line][-5:]

    of_cpu, of_card = found("cpu", *HOST), found("card", *CARD)
    equal = sum(map(str.__eq__, of_cpu, of_card))
    return f"{equal} of {len(of_cpu)} lines" if of_cpu else "no task of the script's"


PAGED = ["--attention_type=paged"]
DYNAMIC = ["--compile_dynamic", "--compile_dynamic_sendnn"]
SCRIPTS: dict[str, Callable[[pathlib.Path], str]] = {
    "sdpa static": inference,
    "sdpa dynamic": lambda work: inference(work, *DYNAMIC),
    "paged static": lambda work: inference(work, *PAGED),
    "paged dynamic": lambda work: inference(work, *PAGED, *DYNAMIC),
    "validation": validation,
    "generate_metrics": metrics,
    "drive_paged_programs": programs,
    "run_encoders": encoders,
}  # fmt: skip


def on_host(work: pathlib.Path, since: float) -> list[str]:
    logs = [log.read_text(errors="replace") for log in work.glob("*.log")
            if log.stat().st_mtime > since]  # fmt: skip
    return sorted({op for text in logs for line in re.findall("ON HOST:(.*)", text)
                   for op in line.split()})  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=[*NAMES])
    parser.add_argument("--only", nargs="*", default=[*SCRIPTS])
    options = parser.parse_args()
    for name in options.names:
        work = options.folder.resolve() / name
        if not work.exists():
            here = pathlib.Path(__file__).parent
            subprocess.run([sys.executable, here / "small_models.py", name, work], check=True)
        for script, test in SCRIPTS.items():
            if script not in options.only or (script == "run_encoders") != (name in ENCODERS):
                continue
            begin, since = time.monotonic(), time.time()
            try:
                found = test(work)
            except (Failed, OSError) as why:
                found = f"FAILED: {why}"
            print(json.dumps({"name": name, "script": script, "found": found,
                              "seconds": round(time.monotonic() - begin, 1),
                              "host": on_host(work, since)}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
