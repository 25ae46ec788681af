# SPDX-License-Identifier: Apache-2.0
"""The Python examples of the documentation run as they stand, page by page in one process."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/python.md", "docs/profiling.md"]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page):
    text = (ROOT / page).read_text()
    examples = list(EXAMPLE.finditer(text))
    assert examples, f"{page} has no example"
    names = {"__name__": "example"}
    for example in examples:
        line = text.count("\n", 0, example.start(1))
        code = compile("\n" * line + example[1], str(ROOT / page), "exec")
        exec(code, names)
