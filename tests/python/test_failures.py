# SPDX-License-Identifier: Apache-2.0
"""Reports of failures: TORCH_SPYRE_FFDC=1 and torch.spyre.get_diagnostic_report()."""

import os

import pytest
import torch
from torch_spyre import _C, Unsupported, profiler
from torch_spyre.debug import failures
from torch_spyre.execution.kernel_runner import SpyreUnimplementedRunner


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TORCH_SPYRE_FFDC", "1")
    return tmp_path / "torch-spyre" / "ffdc_reports"


def fail(category, error):
    with pytest.raises(type(error)), failures.reported(category, "kernel"):
        raise error


def test_nothing_is_written_unasked(folder, monkeypatch):
    monkeypatch.setenv("TORCH_SPYRE_FFDC", "0")
    fail("unknown", ValueError("x"))
    assert not folder.exists() and torch.spyre.get_diagnostic_report() is None


def test_a_failure_is_found_again(folder):
    with pytest.raises(RuntimeError):
        SpyreUnimplementedRunner("sdsc_fused_x_0", "aten.x").run()
    report = torch.spyre.get_diagnostic_report()
    failure = report["failure"]
    assert (failure["category"], failure["exception_type"]) == ("unimplemented", "RuntimeError")
    assert failure["file"].endswith("kernel_runner.py") and "aten.x" in failure["message"]
    assert report["runtime"]["kernel_name"] == "sdsc_fused_x_0"
    assert report["metadata"]["pid"] == os.getpid()
    assert report["environment"]["TORCH_SPYRE_FFDC"] == "1"
    assert os.stat(report["_report_path"]).st_mode & 0o777 == 0o600
    assert profiler.get_diagnostic_report(str(folder)) == report


def test_a_compilation_is_reported_once_by_the_inner_layer(folder, monkeypatch):
    def refuse(*_arguments):
        raise Unsupported("sdsc_0.json: no such thing")

    monkeypatch.setattr(_C, "compile", refuse)
    with pytest.raises(Exception, match="no such thing"):
        torch.compile(lambda x: torch.relu(x * 3.25))(torch.eye(4, device="spyre"))
    (_path,) = folder.iterdir()
    failure = torch.spyre.get_diagnostic_report()["failure"]
    assert failure["category"] == "compile_backend"
    assert failure["exception_type"] == Unsupported.__name__


def test_the_newest_readable_report_counts(folder):
    for number in range(failures.MOST_REPORTS + 3):
        fail("runtime_launch", ValueError(str(number)))
    assert len(list(folder.iterdir())) == failures.MOST_REPORTS
    newest = torch.spyre.get_diagnostic_report()
    assert newest["failure"]["message"] == str(failures.MOST_REPORTS + 2)
    (folder / "ffdc_a_20990101T000000_000000_1.json").write_text("{")
    (folder / "ffdc_a_20990101T000000_000000_2.json").write_text('{"failure": 3}')
    os.mkfifo(folder / "ffdc_a_20990101T000000_000000_3.json")
    (folder / "ffdc_other.json").write_text("{}")
    assert torch.spyre.get_diagnostic_report() == newest
