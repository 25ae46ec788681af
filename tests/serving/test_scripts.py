# SPDX-License-Identifier: Apache-2.0
"""All scripts of aiu-fms-testing-utils on every architecture (scripts.py), whose outcomes are the
table of docs/serving.md. Long: run by `make test-serving`; half an hour on two cores."""

import json

import environment
import pytest
from environment import ROOT, run

environment.need()
pytestmark = pytest.mark.long

# What ends in the scripts or in ibm-fms themselves, on the CPU as well.
THEIRS = {
    "mixtral": {"paged static": "emb_dim", "paged dynamic": "emb_dim",
                "drive_paged_programs": "FAILED"},
    "roberta_question_answering": {"run_encoders": "squad_v2"},
    "mpnet": {"run_encoders": "no task of the script's"},
}  # fmt: skip
# One of three sequences parts from the CPU's.
PARTS = {name: {"sdpa static": "17 of 24 tokens"} for name in ("gpt_oss", "bamba")}
ENDS_WELL = ("24 of 24 tokens", "passes", "differences of probabilities", "5 of 5 lines")


@pytest.mark.parametrize(
    "name",
    ["llama", "granite", "granite_moe_hybrid", "granite_swa", "gpt_bigcode", "gpt_oss", "mistral",
     "mixtral", "qwen3", "bamba", "roberta", "roberta_question_answering", "bert", "mpnet"],
)  # fmt: skip
def test_scripts_find_on_the_card_what_they_find_on_the_cpu(name, tmp_path):
    done = run(ROOT / "tests/serving/scripts.py", tmp_path, name, seconds=3600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines
    for line in lines:
        said = (THEIRS.get(name, {}) | PARTS.get(name, {})).get(line["script"])
        assert said in line["found"] if said else line["found"].startswith(ENDS_WELL), line
        assert line["host"] == [], line
