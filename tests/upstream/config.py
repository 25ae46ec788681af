# SPDX-License-Identifier: Apache-2.0
"""Test configurations in the format of torch-spyre's RFC 1287 (`PYTORCH_TEST_CONFIG`).

    test_suite_config:
      files:
        - path: ${PYTORCH_ROOT}/test/test_view_ops.py
          unlisted_test_mode: xfail
          tests:
            - names: [TestViewOps::test_view_view]
              mode: mandatory_success
      global:
        supported_dtypes: [{name: float16}, {name: int64}]
        supported_ops: [{name: add}]

A name is one of the generic class and test, and means the test in every dtype; or it is the whole
name of a test as PyTorch makes it for the device. Modes: mandatory_success (must pass), xfail (may
fail), xfail_strict (must fail), skip. Dtypes that are not supported are left out, and so are
operators (of tests by `@ops`). `edits` and `force_xfail` are refused.
"""

from __future__ import annotations

import os
import string
from dataclasses import dataclass, field
from pathlib import Path

import yaml

MODES = ("mandatory_success", "xfail", "xfail_strict", "skip")
ROOTS = {"PYTORCH_ROOT": "TORCH_ROOT", "TORCH_DEVICE_ROOT": "TORCH_SPYRE_ROOT"}


@dataclass
class File:
    """What a configuration says of one file; `dtypes` and `ops` are empty for all."""

    path: Path
    unlisted: str
    modes: dict[str, str] = field(default_factory=dict)  # by name
    dtypes: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()

    def mode(self, generic: str, whole: str) -> str:
        return self.modes.get(whole) or self.modes.get(generic) or self.unlisted


def load(path: Path) -> list[File]:
    """The files of a configuration. ValueError names the place of what is wrong."""
    suite = _mapping(yaml.safe_load(path.read_text()), str(path), {"test_suite_config"})
    body = _mapping(
        suite.get("test_suite_config"), f"{path}: test_suite_config", {"files", "global", "labels"}
    )
    where = f"{path}: global"
    common = _mapping(
        body.get("global") or {}, where, {"supported_dtypes", "supported_ops", "supported_modules"}
    )
    dtypes = _names(common.get("supported_dtypes"), f"{where}: supported_dtypes")
    ops = _names(common.get("supported_ops"), f"{where}: supported_ops")
    files = body.get("files")
    if not isinstance(files, list) or not files:
        raise ValueError(f"{path}: test_suite_config: files must be a list with an entry")
    return [_file(entry, f"{path}: files[{n}]", dtypes, ops) for n, entry in enumerate(files)]


def _file(entry, where: str, dtypes, ops) -> File:
    entry = _mapping(entry, where, {"path", "unlisted_test_mode", "tests"})
    if not isinstance(entry.get("path"), str):
        raise ValueError(f"{where}: path is missing")
    unlisted = _mode(entry.get("unlisted_test_mode", "mandatory_success"), where)
    file = File(expanded(entry["path"], where), unlisted, {}, dtypes, ops)
    for number, test in enumerate(entry.get("tests") or []):
        place = f"{where}: tests[{number}]"
        test = _mapping(test, place, {"names", "mode", "tags"})
        names = test.get("names")
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise ValueError(f"{place}: names must be a list of CLASS::TEST")
        mode = _mode(test.get("mode", "mandatory_success"), place)
        file.modes |= dict.fromkeys(names, mode)
    return file


def expanded(path: str, where: str) -> Path:
    """A path with its ${ROOT} from the environment, by either of the root's names."""
    roots = {}
    for name, other in ROOTS.items():
        root = os.environ.get(name) or os.environ.get(other)
        if root:
            roots |= {name: root, other: root}
    try:
        return Path(string.Template(path).substitute(roots))
    except (KeyError, ValueError) as error:
        raise ValueError(f"{where}: path {path}: {error} is no variable that is set") from None


def _mapping(value, where: str, known: set[str]) -> dict:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: a mapping is expected, not {type(value).__name__}")
    unknown = sorted(set(map(str, value)) - known)
    if unknown:
        raise ValueError(f"{where}: {unknown[0]} is not supported; known: {sorted(known)}")
    return value


def _mode(value, where: str) -> str:
    if value not in MODES:
        raise ValueError(f"{where}: mode {value!r} is none of {', '.join(MODES)}")
    return value


def _names(entries, where: str) -> tuple[str, ...]:
    made = [_mapping(entry, where, {"name"}) for entry in entries or []]
    return tuple(str(entry["name"]) for entry in made)
