# SPDX-License-Identifier: Apache-2.0
"""All scripts of aiu-fms-testing-utils on every architecture (scripts.py), which is the table of
docs/serving.md. Long: run by `make test-serving`; half an hour on two cores."""

import itertools
import json

import environment
import pytest
from environment import ROOT, run

environment.need()
pytestmark = pytest.mark.long

# What ends in the scripts or in ibm-fms themselves, on the CPU as well.
NO_CACHE = "has_previous_state"
THEIRS = {
    "mixtral": {"paged static": "emb_dim", "paged dynamic": "emb_dim",
                "drive_paged_programs": "Unfused weights unsupported"},
    "bamba": {"paged static": NO_CACHE, "paged dynamic": NO_CACHE,
              "drive_paged_programs": NO_CACHE},
    "roberta_question_answering": {"run_encoders": "squad_v2"},
    "mpnet": {"run_encoders": "no task of the script's"},
}  # fmt: skip


def read_table():
    """{architecture: {script: cell}} of the page, without empty cells."""
    lines = (ROOT / "docs/serving.md").read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("| | sdpa static |"))
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[begin:])
    (_, *scripts), _, *rows = ([c.strip() for c in line.strip("|").split("|")] for line in table)
    return {
        name: {script: cell for script, cell in zip(scripts, cells, strict=True) if cell}
        for name, *cells in rows
    }


TABLE = read_table()


@pytest.mark.parametrize("name", TABLE)
def test_scripts_find_on_the_card_what_they_find_on_the_cpu(name, tmp_path):
    done = run(ROOT / "tests/serving/scripts.py", tmp_path, name, seconds=3600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    theirs = THEIRS.get(name, {})
    cells = {line["script"]: "theirs" if line["script"] in theirs else "as the CPU"
             for line in lines}  # fmt: skip
    assert cells == TABLE[name]
    for line in lines:
        said = theirs.get(line["script"])
        assert said in line["found"] if said else line["near"], line
        assert line["host"] == [], line
