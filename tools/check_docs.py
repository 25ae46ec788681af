# SPDX-License-Identifier: Apache-2.0
"""Checks the documentation: relative links resolve, every module of src/ has a page, every page is
in the index, files that pages name in backticks exist (of C by their names alone, of Python from a
folder on), functions beside them in tables, and docs/folders.md has a row for every folder of
src/ and python/, whose patterns of files match some."""

import fnmatch
import functools
import re
import sys
from pathlib import Path

# Module -> page, where they differ.
PAGE = {"cli": "cli", "compile": "cli"}

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NAMED_FILE = re.compile(r"`((?:src|tests|tools|include|python|docs|examples)/[\w./-]+\.\w+)`")
# Part of a path, or a file of C by its name alone: `compile/backend.py`, `launch.c`.
NAMED_PART = re.compile(r"`((?:[\w-]+/)+[\w.-]+\.py|[\w./-]+\.(?:c|h|cpp|def))`")
SOURCES = ("include", "src", "python", "tests", "tools", "bench", "examples", "packages")
NAMED_FUNCTION = re.compile(r"^\| `((?:src|python)/[\w./-]+)` \| `(\w+)\(\)` \|", re.MULTILINE)
# Files of other projects are cited with the repository before them.
CITED = re.compile(r"[\w.-]+/[\w.-]+,\s+`[^`]*`")


def anchors(text: str) -> set[str]:
    """GitHub's names of the headings."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in kept}


@functools.cache
def sources(root: Path) -> list[str]:
    """Every file below the folders of SOURCES, as "/python/torch_spyre/config.py"."""
    every = (path for folder in SOURCES for path in (root / folder).rglob("*.*"))
    return ["/" + path.relative_to(root).as_posix() for path in every]


def check_links(page: Path, root: Path) -> list[str]:
    found = []
    name = page.relative_to(root)
    text = FENCE.sub("", page.read_text())
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            found.append(f"{name}: link to {link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            found.append(f"{name}: link to {link}: no such heading")
    for file in NAMED_FILE.findall(CITED.sub("", text)):
        if not (root / file).exists():
            found.append(f"{name}: names {file}, which does not exist")
    for part in set(NAMED_PART.findall(CITED.sub("", text))):
        if not any(source.endswith("/" + part) for source in sources(root)):
            found.append(f"{name}: names {part}, which is no file of the project")
    for file, function in NAMED_FUNCTION.findall(text):
        source = root / file
        if source.exists() and not re.search(rf"\b{function}\(", source.read_text()):
            found.append(f"{name}: names {function}() in {file}, which has no such function")
    return found


def check_pages(root: Path) -> list[str]:
    found = []
    for module in sorted(path.name for path in (root / "src").iterdir() if path.is_dir()):
        page = f"docs/{PAGE.get(module, module)}.md"
        if not (root / page).exists():
            found.append(f"src/{module}: has no page {page}")
    index = (root / "docs" / "index.md").read_text()
    for page in sorted((root / "docs").glob("*.md")):
        if page.name != "index.md" and f"({page.name})" not in index:
            found.append(f"docs/{page.name}: is not in docs/index.md")
    return found


def check_folders(root: Path) -> list[str]:
    """docs/folders.md has a row for every folder of src/ and python/ with files, and no other."""
    page = (root / "docs" / "folders.md").read_text()
    named = set(re.findall(r"^\| \**`((?:src|python)/[\w./-]+)`\** \|", page, re.MULTILINE))
    there = {
        path.parent.relative_to(root).as_posix()
        for folder in ("src", "python")
        for path in (root / folder).glob("*/**/*.*")
        if path.suffix in (".c", ".h", ".cpp", ".py", ".def")
    }
    found = [f"docs/folders.md: has no row for {folder}" for folder in sorted(there - named)]
    found += [f"docs/folders.md: has a row for {folder}" for folder in sorted(named - there)]
    for pattern in re.findall(r"`([\w./-]*\*[\w./-]*\.\w+)`", page):
        if not any(fnmatch.fnmatch(source, f"*/{pattern}") for source in sources(root)):
            found.append(f"docs/folders.md: names {pattern}, which no file matches")
    return found


def check_pass_table(root: Path) -> list[str]:
    """The table of docs/front.md restates pass.def."""
    row = re.compile(r'PASS_ROW\((\w+),\s*(\w+),\s*"([^"]*)"\)')
    rows = row.findall((root / "src/front/pass.def").read_text())
    wanted = [f"| `{name}` | {kind} | {summary} |" for name, kind, summary in rows]
    page = (root / "docs/front.md").read_text()
    found = [line for line in page.splitlines() if re.match(r"\| `\w+` \| (OPT|LOWER|PLAN) ", line)]
    return [] if found == wanted else ["docs/front.md: the table of passes is not that of pass.def"]


def check_invariant_table(root: Path) -> list[str]:
    """The table of docs/front.md restates invariant.def."""
    row = re.compile(r'INVARIANT_ROW\((\d+),\s*\w+,\s*\w+,\s*(\w+),\s*"([^"]*)"\)')
    rows = row.findall((root / "src/front/check/invariant.def").read_text())
    wanted = [f"| I-{number} | `{stage}` | {holds} |" for number, stage, holds in rows]
    page = (root / "docs/front.md").read_text()
    found = [line for line in page.splitlines() if line.startswith("| I-")]
    return (
        [] if found == wanted else ["docs/front.md: the invariants are not those of invariant.def"]
    )


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    pages = sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])
    found = check_pages(root) + check_folders(root)
    found += check_pass_table(root) + check_invariant_table(root)
    for page in pages:
        found += check_links(page, root)
    for line in found:
        print(line, file=sys.stderr)
    print(f"check_docs: {len(pages)} pages, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
