# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: runs a file of PyTorch's tests on the device as a configuration says.

`PYTORCH_TEST_CONFIG` names the configuration; `UPSTREAM_RESULTS` a file that gets a JSON line when
a test starts and one when it ends. PyTorch makes the tests of the device itself
(`PYTORCH_TESTING_DEVICE_ONLY_FOR=privateuse1`); tests that are not device-generic are left out.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import torch_spyre

from . import config as configuration

CLASS = re.compile(r"(SPYRE|PRIVATEUSE1)$")  # what PyTorch appends to the generic name
DTYPE = re.compile(r"bool|u?int\d+|bfloat16|float\d+(?:_e\dm\d\w*)?|complex\d+|quint\w+|qint\w+")


def files() -> list[configuration.File]:
    return configuration.load(Path(os.environ["PYTORCH_TEST_CONFIG"]))


def names(node: str) -> tuple[str, str, list[str]]:
    """(generic name, whole name, dtypes) of CLASS::TEST; an empty generic name for a test that is
    not made for the device."""
    kind, _, test = node.partition("::")
    generic, device, rest = test.partition("_spyre")
    if not CLASS.search(kind) or not device:
        return "", node, []
    return f"{CLASS.sub('', kind)}::{generic}", node, DTYPE.findall(rest)


def pytest_configure(config):
    torch_spyre.fallback.set("silent")
    config.upstream = {file.path.resolve(): file for file in files()}
    ops = {name for file in config.upstream.values() for name in file.ops}
    if ops:
        from torch.testing._internal.common_device_type import PrivateUse1TestBase

        PrivateUse1TestBase.set_test_configs(op_allowlist=ops)


def pytest_collection_modifyitems(config, items):
    kept, left = [], []
    for item in items:
        file = config.upstream.get(item.path.resolve())
        generic, whole, dtypes = names(item.nodeid.split("::", 1)[1])
        known = not file or not file.dtypes or set(dtypes) <= set(file.dtypes)
        (kept if file and generic and known else left).append(item)
        if file and generic:
            _mark(item, file.mode(generic, whole))
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def _mark(item, mode: str) -> None:
    if mode == "skip":
        item.add_marker(pytest.mark.skip(reason="the configuration"))
    elif mode != "mandatory_success":
        item.add_marker(pytest.mark.xfail(strict=mode == "xfail_strict", reason="configuration"))


def _record(**entry) -> None:
    path = os.environ.get("UPSTREAM_RESULTS")
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(entry) + "\n")


def pytest_runtest_logstart(nodeid):
    _record(start=nodeid.split("::", 1)[1])


def pytest_runtest_logreport(report):
    """One outcome for a test: passed, failed, skipped; an expected failure is one, too."""
    if report.when != "call" and report.passed:
        return
    expected = hasattr(report, "wasxfail")
    outcome = "failed" if expected and report.skipped else report.outcome
    if expected and report.failed and "[XPASS(strict)]" in str(report.longrepr):
        outcome = "passed"
    text = [t for t in str(report.longrepr or "").splitlines() if t.startswith("E  ")]
    why = text[0][1:].strip() if text and outcome == "failed" else ""
    _record(test=report.nodeid.split("::", 1)[1], outcome=outcome, why=why[:200])
