# SPDX-License-Identifier: Apache-2.0
"""`spyre estimate`, and what its page shows of it."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]


def test_the_page_has_the_rows_of_the_command(spyre, tmp_path):
    page = (ROOT / "docs/estimate.md").read_text()
    block = page.split("```\nspyre estimate ")[1].split("```")[0]
    command, shown = block.split("\n", 1)
    arguments = command.split()[:-1] + [tmp_path / "llama.svg"]
    arguments[0] = ROOT / arguments[0]
    rows = spyre.good("estimate", *arguments).splitlines()
    lines = shown.strip("\n").splitlines()
    assert len(lines) == 3
    assert [line for line in lines if line not in rows] == []
    assert (tmp_path / "llama.svg").read_text().startswith("<svg")
