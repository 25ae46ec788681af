# SPDX-License-Identifier: Apache-2.0
"""The scripts of aiu-fms-testing-utils on small models of many architectures, on the card against
their own runs on the CPU in float32.

    scripts.py FOLDER [NAME ..] [--only SCRIPT ..]

FOLDER keeps the checkpoints (small_models.py) and what the scripts wrote. Prints a line of JSON for
each run: architecture, script, what was found, whether that is near the CPU (NEAR), seconds, and
the operators that the card left to the host. Each run is a process of its own, forked from this
one, which has imported what they import.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
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
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", AIU_WORLD_RANK_0="0", OMP_NUM_THREADS="1",
                  VLLM_DT_MAX_CONTEXT_LEN="512", VLLM_DT_MAX_BATCH_SIZE="4",
                  VLLM_DT_MAX_BATCH_TKV_LIMIT="1024", TOKENIZERS_PARALLELISM="false")  # fmt: skip
import aiu_fms_testing_utils.testing.validation
import aiu_fms_testing_utils.utils.paged
import fms.models  # noqa: F401  (what scripts import, before they are forked)
import fms.utils.generation
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
NEAR = 0.01  # logits, of the largest one: those of the card, and a tie of two of the CPU's
PROBABLE = 3e-4  # mean difference of probabilities
Found = tuple[str, bool]  # what was found, and whether it is near the CPU


class Failed(Exception):
    """What a script said last."""


def run(script: str, log: pathlib.Path, *options: object, steps: pathlib.Path | None = None) -> str:
    """The script's output. `steps` gets what keep_steps() keeps."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with log.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                if steps:
                    keep_steps(steps)
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


def inference(work: pathlib.Path, *options: str) -> Found:
    prompts = work / "prompts"
    prompts.mkdir(exist_ok=True)
    for i, length in enumerate(LENGTHS):
        (prompts / f"{i}.txt").write_text(words(length, i))
    kind = [o for o in options if o.startswith("--attention_type")]
    of_cpu = _steps(work, "_".join(["cpu", *kind]), *HOST, *kind)
    of_card = _steps(work, "_".join(["card", *(o.strip("-") for o in options)]), *CARD, *options)
    pairs = zip(of_cpu["tokens"], of_card["tokens"], strict=True)
    parted = [_equal(ours, theirs) for ours, theirs in pairs]
    apart = max(_apart(of_cpu["logits"][: n + 1, i], of_card["logits"][: n + 1, i])
                for i, n in enumerate(parted))  # fmt: skip
    ties = [_gap(of_cpu["logits"][n, i], of_cpu["tokens"][i, n], of_card["tokens"][i, n])
            for i, n in enumerate(parted) if n < NEW_TOKENS]  # fmt: skip
    then = "".join(f", a tie within {100 * tie:.1f} %" for tie in ties)
    found = f"{sum(parted)} of {NEW_TOKENS * len(LENGTHS)} tokens{then}"
    return f"{found}, logits within {100 * apart:.1f} %", max(apart, *ties, 0.0) <= NEAR


def _steps(work: pathlib.Path, name: str, *options: str) -> dict[str, torch.Tensor]:
    """What keep_steps() kept; the CPU's for all runs."""
    out = work / f"{name}.steps"
    if not out.exists() or not name.startswith("cpu"):
        run("inference", work / f"{name}.log", "--architecture=hf_pretrained", *_unfused(work),
            f"--model_path={work}", f"--tokenizer={work}", f"--prompt_path={work / 'prompts'}",
            "--batch_size=3", "--min_pad_length=192", f"--max_new_tokens={NEW_TOKENS}",
            "--no_early_termination", *options, steps=out)  # fmt: skip
    found: dict[str, torch.Tensor] = torch.load(out)
    return found


def keep_steps(file: pathlib.Path) -> None:
    """Both functions `generate` write the logits [steps, batch, vocabulary] and tokens
    [batch, steps] of their last call into the file."""
    for module in (fms.utils.generation, aiu_fms_testing_utils.utils.paged):
        module.generate = functools.partial(_generate, module.generate, file)


def _generate(generate: Callable[..., Any], file: pathlib.Path, *args: Any, **kwargs: Any) -> Any:
    logits: list[torch.Tensor] = []
    tokens: list[torch.Tensor] = []

    def keep(place: int, found: torch.Tensor, token: torch.Tensor, more: Any) -> Any:
        logits.append(found.float().clone())
        tokens.append(token.flatten().clone())
        return token, more

    result = generate(*args, post_iteration_hook=keep, **kwargs)
    torch.save({"logits": torch.stack(logits), "tokens": torch.stack(tokens, 1)}, file)
    return result


def _equal(a: torch.Tensor, b: torch.Tensor) -> int:
    """Tokens before the first that differs."""
    return next(iter((a != b).nonzero().flatten().tolist()), len(a))


def _apart(of_cpu: torch.Tensor, of_card: torch.Tensor) -> float:
    return float((of_cpu - of_card).abs().max() / of_cpu.abs().max())


def _gap(logits: torch.Tensor, token: torch.Tensor, other: torch.Tensor) -> float:
    """Between the CPU's logits of the tokens that both chose."""
    return float((logits[token] - logits[other]) / logits.abs().max())


def _unfused(work: pathlib.Path) -> list[str]:
    return [] if work.name in FUSED else ["--unfuse_weights"]


def validation(work: pathlib.Path) -> Found:
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
    passed = "The validation has passed!" in said
    cpu, card = (torch.load(kept / of / "0.pt")["logits"].float() for of in ("cpu", "aiu"))
    apart = _apart(cpu, card)
    return f"{_passes(passed)}, logits within {100 * apart:.1f} %", passed and apart <= NEAR


def _passes(passed: bool) -> str:
    return "passes" if passed else "does not pass"


def _entropy(work: pathlib.Path) -> float:
    """A bound on that of the tokens of random weights."""
    return math.log(json.loads((work / "config.json").read_text())["vocab_size"]) + 1


def metrics(work: pathlib.Path) -> Found:
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
    most = max(map(float, values))
    return f"differences of probabilities {most:.1e}", most <= PROBABLE


def programs(work: pathlib.Path) -> Found:
    criteria = [{"max_batch": 4, "max_tkv": 256, "batch_granularity": 1, "tkv_granularity": 64}]
    (work / "criteria.json").write_text(json.dumps({"programs": criteria}))
    write_conversations(work / "sharegpt.json")
    found = run("drive_paged_programs", work / "programs.log", "--model_variant", work,
                "--program_criteria_json_path", work / "criteria.json", "--dataset_path",
                work / "sharegpt.json", "--max_new_tokens=4", "--attention_type=paged",
                "--test_type=metrics", f"--cross_entropy_threshold={_entropy(work)}")  # fmt: skip
    passed = "all tests passed" in found
    return _passes(passed), passed


def encoders(work: pathlib.Path) -> Found:
    def found(name: str, *options: str) -> list[str]:
        said = run("run_encoders", work / f"{name}.log", "--architecture=hf_pretrained",
                   f"--model_path={work}", f"--tokenizer={work}", "--unfuse_weights",
                   *options)  # fmt: skip
        return [line for line in said.splitlines() if " | 0." in line][-5:]

    of_cpu, of_card = found("cpu", *HOST), found("card", *CARD)
    if not of_cpu:
        return "no task of the script's", False
    equal = sum(map(str.__eq__, of_cpu, of_card))
    return f"{equal} of {len(of_cpu)} lines", equal == len(of_cpu)


PAGED = ["--attention_type=paged"]
DYNAMIC = ["--compile_dynamic", "--compile_dynamic_sendnn"]
SCRIPTS: dict[str, Callable[[pathlib.Path], Found]] = {
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
                found, near = test(work)
            except (Failed, OSError) as why:
                found, near = f"FAILED: {why}", False
            print(json.dumps({"name": name, "script": script, "found": found, "near": near,
                              "seconds": round(time.monotonic() - begin, 1),
                              "host": on_host(work, since)}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
