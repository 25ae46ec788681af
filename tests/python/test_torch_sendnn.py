# SPDX-License-Identifier: Apache-2.0
"""The import package `torch_sendnn`: names, state, warm-up, variables, and whose it is."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch
from torch_spyre.sendnn import api, environment_variables, warmup

FOLDER = pathlib.Path(__file__).parents[2] / "packages/torch_sendnn/torch_sendnn_openspyre"


def test_names_that_programs_import(run_python):
    source = """
import torch_sendnn
from torch_sendnn import torch_sendnn as inner, warmup_mode
from torch_sendnn.backends import (get_warmup_mode, lazy_handles, preserve_lazyhandle,
    release_lazyhandle, sendnn_backend, sendnn_decoder_backend, set_warmup_mode, update_lazyhandle)
from torch_sendnn._version import __version__
import torch
assert inner.update_lazyhandle is update_lazyhandle and inner.sendnn_backend is sendnn_backend
assert [int(part) for part in __version__.split(".")] and lazy_handles == []
state = getattr(torch_sendnn.backends.sendnn_backend, "__state")
assert state.spyre_graph_cache.deeptools_config["config"] == {"vllm_max_batch_size": "4"}
with torch_sendnn.warmup_mode():
    assert get_warmup_mode()
    result = torch.compile(torch.neg, backend="sendnn")(torch.ones(3).half())
assert not get_warmup_mode() and result.tolist() == [-1.0] * 3
update_lazyhandle(); preserve_lazyhandle(); release_lazyhandle()
"""
    run_python(
        source,
        PYTHONPATH=str(FOLDER),
        VLLM_DT_MAX_BATCH_SIZE="4",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",  # as vLLM's plugin has it
    )


def test_a_real_package_wins(run_python, tmp_path):
    real = tmp_path / "torch_sendnn"
    real.mkdir()
    (real / "__init__.py").write_text("whose = 'real'\n")
    pth = FOLDER.parent / "torch_sendnn_openspyre.pth"
    assert pth.read_text().split() == [FOLDER.name]  # site puts it behind what is there
    path = os.pathsep.join([str(tmp_path), str(FOLDER)])
    done = run_python("import torch_sendnn; print(torch_sendnn.whose)", PYTHONPATH=path)
    assert done.stdout.split() == ["real"]


@pytest.fixture
def finished():
    """Marks of the graphs that ended their warm-up."""
    marks = []
    yield marks
    warmup._unfinished.clear()
    warmup._active = False


def test_warm_up_ends_with_the_rest(finished):
    with warmup.warmup_mode():
        warmup.at_end(lambda: finished.append("a"))
        with warmup.warmup_mode():
            pass
        assert finished == []
    assert finished == ["a"]
    warmup.set_warmup_mode(True)
    warmup.at_end(lambda: finished.append("b"))
    api.update_lazyhandle()
    assert finished == ["a", "b"]


def test_an_error_ends_warm_up_and_compiles_nothing(finished):
    with pytest.raises(KeyError), warmup.warmup_mode():
        warmup.at_end(lambda: finished.append("a"))
        raise KeyError
    assert finished == [] and not warmup.get_warmup_mode()


def test_the_way_in_which_vllm_wraps_the_end(finished):
    class Mode(warmup.warmup_mode):
        pass

    original = Mode.__exit__
    Mode.__exit__ = lambda *args: (finished.append("staggered"), original(*args))[0]
    with Mode():
        warmup.at_end(lambda: finished.append("a"))
    assert finished == ["staggered", "a"]


def test_variables_without_effect_are_said_once(monkeypatch, caplog):
    monkeypatch.setattr(environment_variables, "_said", False)
    monkeypatch.setenv("DT_OPT", "autopilot=0")
    monkeypatch.setenv("VLLM_DT_MAX_BATCH_SIZE", "4")
    for _ in range(2):
        torch._dynamo.reset()
        torch.compile(torch.neg, backend="sendnn")(torch.ones(3).half())
    said = [r.message for r in caplog.records if r.name == "torch_spyre.sendnn"]
    assert len(said) == 1 and "DT_OPT" in said[0] and "VLLM_DT_MAX_BATCH_SIZE" not in said[0]


def test_the_folder_of_programs(monkeypatch, tmp_path):
    monkeypatch.setenv("SPYRE_CACHE_DIR", "")
    monkeypatch.delenv("SPYRE_CACHE_DIR")
    monkeypatch.setenv("TORCH_SENDNN_CACHE_DIR", str(tmp_path))
    environment_variables.take_cache_folder()
    assert "SPYRE_CACHE_DIR" not in os.environ
    monkeypatch.setenv("TORCH_SENDNN_CACHE_ENABLE", "1")
    environment_variables.take_cache_folder()
    assert os.environ["SPYRE_CACHE_DIR"] == str(tmp_path)
    monkeypatch.setenv("TORCH_SENDNN_CACHE_ENABLE", "yes")
    with pytest.raises(ValueError, match="TORCH_SENDNN_CACHE_ENABLE=yes: expected 0 or 1"):
        environment_variables.take_cache_folder()


def test_the_page_has_the_table_of_variables():
    page = FOLDER.parents[2] / "tools/serving_page.py"
    assert subprocess.run([sys.executable, page, "--check"], check=False).returncode == 0


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_limits_are_positive_numbers(monkeypatch, text):
    monkeypatch.setenv("VLLM_DT_MAX_BATCH_SIZE", text)
    with pytest.raises(ValueError, match=f"VLLM_DT_MAX_BATCH_SIZE={text}: expected a positive"):
        environment_variables.limit("VLLM_DT_MAX_BATCH_SIZE")
