# SPDX-License-Identifier: Apache-2.0
"""The Python examples of the documentation run, each by itself. Those of a page share a process:
what one registers stays registered, but no name of it is known to the next."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    if EXAMPLE.search(page.read_text())
)
# One rank of one, as torchrun tells it.
RANK = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


def run_page(page):
    text = (ROOT / page).read_text()
    for example in EXAMPLE.finditer(text):
        line = text.count("\n", 0, example.start(1))
        code = compile("\n" * line + example[1], str(ROOT / page), "exec")
        exec(code, {"__name__": "example"})


def test_pages_with_examples_are_found():
    assert {"README.md", "docs/python.md", "docs/many-cards.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(run_compiling, page):
    run_compiling(
        f"""
import os, sys
import torch_spyre
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
from test_docs import run_page
os.chdir({str(ROOT)!r})
with torch_spyre.fallback("error"):
    run_page({page!r})
""",
        **RANK,
    )


# Of torch-spyre's glossary (docs/source/getting_started/glossary.md at 54d97b3).
TERMS = """BYTES_IN_STICK, corelet, dataflow, DCI, decomposition, Deeptools, DMA, FixedTiledLayout,
flex runtime, fold, graph break, HBM, KTIR, LPDDR5, LX planning, LX scratchpad, OpFunc, PE array,
PrivateUse1, PT, restickify, SDSC, SENCORES, SFP, SFU, span reduction, SPMD, SpyreTensorImpl,
SpyreTensorLayout, stick, stickification, SuperDSC, tile, work distribution, work slice"""


def test_the_glossary_has_every_term_of_torch_spyre():
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = [word.strip() for row in rows for word in row.split(",")]
    assert set(re.split(r",\s", TERMS)) <= set(words)


def test_every_variable_is_in_the_table_of_the_environment():
    declared = (ROOT / "src" / "base" / "environment.def").read_text()
    variables = set(re.findall(r"^VARIABLE\((\w+),", declared, re.MULTILINE))
    of_tests = {name for name in variables
                if name in ("SPYRE_BLESS", "SPYRE_CLI", "SPYRE_SAMPLE_BUNDLES")
                or name.startswith("SPYRE_TEST_")}  # fmt: skip
    page = (ROOT / "docs" / "python.md").read_text()
    section = page.split("## Environment\n")[1].split("\nSettings of the compiler")[0]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {name for name in named if name.startswith("SPYRE_")} == variables - of_tests


def test_the_readme_counts_the_families_as_the_page_of_models():
    count = re.search(r"^(\d+) families:", (ROOT / "docs" / "models.md").read_text(), re.MULTILINE)
    assert f"has {count[1]}\nmodel families" in (ROOT / "README.md").read_text()
