# SPDX-License-Identifier: Apache-2.0
"""tests/upstream: configurations are read and obeyed; what it reports is what happened."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from upstream import config, page, plugin, run  # noqa: E402

TESTS = """
import os
import unittest
import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

class TestSome(TestCase):
    @dtypes(torch.float16, torch.float64)
    def test_add(self, device, dtype):
        x = torch.ones(3, device=device, dtype=dtype)
        self.assertEqual(x.device.type, "spyre")
        self.assertEqual((x + 1).cpu(), torch.full((3,), 2, dtype=dtype))

    def test_fails(self, device):
        self.assertEqual(torch.ones(1, device=device).item(), 2)

    def test_ends(self, device):
        os._exit(3)

    def test_later(self, device):
        pass

instantiate_device_type_tests(TestSome, globals())

class TestOfTheCPU(TestCase):
    def test_this(self):
        pass
"""

SUITE = """
test_suite_config:
  files:
  - path: ${PYTORCH_ROOT}/test/test_some.py
    unlisted_test_mode: UNLISTED
    tests:
    - names: [TestSome::test_add]
      mode: mandatory_success
  global:
    supported_dtypes: [{name: float16}]
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "test").mkdir()
    (tmp_path / "test/test_some.py").write_text(TESTS)
    monkeypatch.setenv("PYTORCH_ROOT", str(tmp_path))
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")
    return tmp_path


def suite(checkout, unlisted="xfail"):
    path = checkout / "some.yaml"
    path.write_text(SUITE.replace("UNLISTED", unlisted))
    return path


def test_a_file_runs_on_the_device(checkout):
    """Dtypes that are left out and tests of the CPU do not run; a test that ends the process is
    crashed, and the rest runs."""
    path = suite(checkout)
    [file] = config.load(path)
    found = {test.partition("::")[2]: outcome
             for test, (outcome, _why) in run.run_file(path, file).items()}  # fmt: skip
    assert found == {
        "test_add_spyre_float16": "passed",
        "test_fails_spyre": "failed",
        "test_ends_spyre": "crashed",
        "test_later_spyre": "passed",
    }


def test_a_mandatory_test_that_fails_is_told(checkout, capsys):
    [file] = config.load(suite(checkout, "mandatory_success"))
    found = {"TestSomeSPYRE::test_add_spyre_float16": ("passed", ""),
             "TestSomeSPYRE::test_fails_spyre": ("failed", "1 is not 2")}  # fmt: skip
    assert run._tell(file, found) == 1
    assert "failed: TestSomeSPYRE::test_fails_spyre: 1 is not 2" in capsys.readouterr().out
    assert run.mandatory(found) == ["TestSome::test_add"]


def test_names():
    whole = "TestSomeSPYRE::test_cast_spyre_float16_int64"
    assert plugin.names(whole) == ("TestSome::test_cast", whole, ["float16", "int64"])
    assert plugin.names("TestOfTheCPU::test_this")[0] == ""


@pytest.mark.parametrize(
    "old, new, wanted",
    [
        ("mode: mandatory_success", "mode: often", "mode 'often' is none of"),
        ("names:", "edits: {}\n      names:", "edits is not supported"),
        ("${PYTORCH_ROOT}", "${ELSEWHERE}", "ELSEWHERE' is no variable"),
        ("[TestSome::test_add]", "3", "names must be a list"),
        ("files:", "file:", "file is not supported"),
    ],
)
def test_configurations_that_are_refused(checkout, old, new, wanted):
    path = suite(checkout)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=wanted) as error:
        config.load(path)
    assert str(path) in str(error.value)


def test_no_checkout_is_skipped_loudly():
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTORCH_ROOT", "TORCH_ROOT")}
    done = subprocess.run([sys.executable, "-m", "upstream.run"], capture_output=True, text=True,
                          env={**kept, "PYTHONPATH": str(ROOT / "tests")})  # fmt: skip
    assert done.returncode == 0 and "SKIPPED: PyTorch's own tests" in done.stderr


def test_the_page_is_that_of_the_rates():
    assert page.PAGE.read_text() == page.text()
