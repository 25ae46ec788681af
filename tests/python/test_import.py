# SPDX-License-Identifier: Apache-2.0
"""The device registers itself silently and starts late."""

import importlib.metadata
import pathlib
import re

import pytest
import torch_spyre

ROOT = pathlib.Path(__file__).parents[2]
PRELUDE = "import torch, torch_spyre\n"


def test_import_is_silent_and_lazy(run_fresh_python):
    done = run_fresh_python(
        PRELUDE + "assert torch.spyre.is_available()\n"
        "assert torch.device('spyre').type == 'spyre'\n"
        "assert not torch.spyre.is_initialized()\n"
        "torch.empty(1, device='spyre')\n"
        "assert torch.spyre.is_initialized()\n"
    )
    assert done.stdout == "" and done.stderr == ""


def test_import_leaves_the_compiler_of_pytorch_alone(run_fresh_python):
    run_fresh_python(
        PRELUDE + "import sys\n"
        "assert torch.tensor([2.0]).to('spyre').cpu().tolist() == [2.0]\n"
        "assert 'torch._dynamo' not in sys.modules and 'torch._inductor' not in sys.modules\n"
    )


def test_modules_of_inductor_are_there_when_they_are_named(run_fresh_python):
    run_fresh_python(
        PRELUDE + "import torch._inductor.utils\n"
        "assert torch._inductor.codecache.FxGraphCache\n"
        "assert not hasattr(torch._inductor, 'no_such_module')\n"
        "assert torch._inductor.__spec__.loader is torch._inductor.__loader__\n"
        "import importlib\n"
        "assert importlib.reload(torch._inductor).ir\n"
    )


def test_modules_are_attributes_without_an_import(run_fresh_python):
    run_fresh_python(
        PRELUDE + "assert torch_spyre.config.sencores == 32 and torch_spyre.ktir.load\n"
        "assert not hasattr(torch_spyre, 'no_such_module')\n"
    )


def test_a_forked_child_is_refused(run_fresh_python):
    run_fresh_python(
        PRELUDE + "import os\n"
        "torch.empty(1, device='spyre')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        torch.empty(1, device='spyre')\n"
        "    except RuntimeError as error:\n"
        "        os._exit(7 if 'forked' in str(error) and torch.spyre._is_in_bad_fork() else 1)\n"
        "    os._exit(2)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
    )


def test_a_compile_worker_touches_no_card(run_python):
    run_python(
        PRELUDE + "assert torch.spyre._is_in_bad_fork()\n"
        "try:\n"
        "    torch.empty(1, device='spyre')\n"
        "    raise SystemExit(1)\n"
        "except RuntimeError:\n"
        "    pass\n",
        IS_INDUCTOR_SPAWNED_SUBPROCESS="1",
    )


def test_the_environment_counts_the_cards(run_python):
    for environment, count in [
        ({}, 1),
        ({"AIU_WORLD_SIZE": "2"}, 2),
        ({"AIU_WORLD_SIZE": "8"}, 8),
        ({"SPYRE_DEVICES": "0,2,2,7"}, 3),
        ({"SPYRE_DEVICES": "0,1,2,3", "AIU_WORLD_SIZE": "3"}, 3),
    ]:
        run_python(PRELUDE + f"assert torch.spyre.device_count() == {count}", **environment)


@pytest.mark.parametrize("listed", ["0-3", "a", "0;1", "0,9", "77, 1"])
def test_a_list_of_cards_that_is_none(run_python, listed):
    run_python(
        PRELUDE + "try:\n    torch.empty(1, device='spyre')\n"
        "except RuntimeError as error:\n    assert 'expected numbers of cards' in str(error)\n"
        "else:\n    raise AssertionError",
        SPYRE_DEVICES=listed,
    )


def test_local_rank_chooses_the_card(run_python):
    run_python(
        PRELUDE + "assert torch.empty(1, device='spyre').device.index == 1",
        LOCAL_RANK="1",
        AIU_WORLD_SIZE="2",
    )
    run_python(
        PRELUDE + "torch.spyre.set_device(0)\n"
        "assert torch.empty(1, device='spyre').device.index == 0",
        LOCAL_RANK="1",
        AIU_WORLD_SIZE="2",
    )


@pytest.mark.parametrize(
    "variables, count, card",
    [
        ({"LOCAL_RANK": "1"}, 2, 1),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, 4, 1),
        ({"LOCAL_RANK": "9", "LOCAL_WORLD_SIZE": "16"}, 8, 1),
        ({"LOCAL_RANK": "63"}, 8, 7),
    ],
)
def test_every_process_of_a_launcher_has_a_card(run_python, variables, count, card):
    """One that computes on the CPU, too: Dynamo asks for the current stream."""
    run_python(
        PRELUDE + "assert torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)) == 2\n"
        f"assert torch.spyre.device_count() == {count}\n"
        f"assert torch.empty(1, device='spyre').device.index == {card}",
        **variables,
    )


@pytest.mark.parametrize(
    "variable, value, rule",
    [
        ("AIU_WORLD_SIZE", "0", "expected the number of cards, 1 to 8"),
        ("AIU_WORLD_SIZE", "-1", "expected the number of cards, 1 to 8"),
        ("AIU_WORLD_SIZE", "many", "expected the number of cards, 1 to 8"),
        ("AIU_WORLD_SIZE", "2x", "expected the number of cards, 1 to 8"),
        ("AIU_WORLD_SIZE", "99999999999999999999", "expected the number of cards, 1 to 8"),
        ("AIU_WORLD_SIZE", "9", "expected the number of cards, 1 to 8"),
        ("SENCORES", "64", "expected a whole number 1..32"),
        ("SPYRE_PROFILE", "fast", "expected one of card extended"),
        ("LX_PLANNING", "maybe", "expected 0 or 1"),
        ("DXP_LX_FRAC_AVAIL", "2", "expected a number 0..1"),
        ("SPYRE_SKIP_PASSES", "nonsense", "skip_passes: "),
        ("SPYRE_FALLBACK", "maybe", "expected one of warn, error, silent"),
        ("SPYRE_GRAPH_MEMORY", "lots", "expected bytes like 64M"),
        ("SPYRE_EAGER_MEMORY", "-1", "expected bytes like 64M"),
        ("SPYRE_REPORT_MEMORY", "1Q", "expected bytes like 64M"),
        ("MAX_BUCKETS", "0", "expected a whole number from 1 on"),
        ("MIN_DEFAULT_GRANULARITY", "4.5", "expected a whole number from 1 on"),
        ("SPYRE_KERNEL_FILES", "maybe", "expected 0 or 1"),
        ("SPYRE_DUMP_COST", "2", "expected 0 or 1"),
        ("DUMP_SPYRE_CODE", "x", "expected 0 or 1"),
        ("TORCH_SPYRE_DOWNCAST_WARN", "x", "expected 0 or 1"),
        ("TORCH_SPYRE_FFDC", "x", "expected 0 or 1"),
        ("LOCAL_RANK", "-1", "expected the number of a card, 0 or more"),
        ("LOCAL_RANK", "first", "expected the number of a card, 0 or more"),
        ("FLEX_DEVICE", "NONSENSE", "expected PF, VF, VFIO, COMPILE or MOCK"),
        ("FLEX_DEVICE", "pf", "expected PF, VF, VFIO, COMPILE or MOCK"),
        ("FLEX_COMPUTE", "MOCK", "expected SENTIENT, SENULATOR or NULL"),
        ("SPYRE_THREADS", "0", "expected a number 1..256"),
        ("SPYRE_THREADS", "-1", "expected a number 1..256"),
        ("SPYRE_THREADS", "10000", "expected a number 1..256"),
        ("SPYRE_THREADS", "many", "expected a number 1..256"),
        ("SPYRE_MEMORY_LIMIT_GB", "lots", "expected a number of GiB, above 0"),
    ],
)
def test_nonsense_in_the_environment_is_refused(run_python, variable, value, rule):
    code = (
        PRELUDE + "try:\n"
        "    torch.empty(1, device='spyre')\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
    )
    assert f"{variable}={value}: {rule}" in run_python(code, **{variable: value}).stdout


@pytest.mark.parametrize(
    "variables",
    [
        {"FLEX_DEVICE": "PF", "FLEX_COMPUTE": "SENTIENT"},
        {"FLEX_DEVICE": "VF", "FLEX_COMPUTE": "SENULATOR"},
        {"FLEX_DEVICE": "MOCK1p0", "FLEX_COMPUTE": "NULL"},
    ],
)
def test_every_kind_of_card_is_the_emulated_one(run_python, variables):
    code = PRELUDE + "print(torch.ones(2, device='spyre').add(1).cpu().tolist())"
    assert run_python(code, **variables).stdout == "[2.0, 2.0]\n"


def test_a_rank_beyond_the_cards_is_named(run_python):
    code = (
        PRELUDE + "try:\n"
        "    torch.empty(1, device='spyre')\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
    )
    said = run_python(code, LOCAL_RANK="3", AIU_WORLD_SIZE="2").stdout
    assert "invalid device ordinal 3: this process uses 2 spyre device(s) (LOCAL_RANK)" in said


def test_unknown_variables_are_named_once(run_python):
    done = run_python(
        PRELUDE + "torch.empty(1, device='spyre')\ntorch.empty(2, device='spyre')\n",
        SPYRE_THREDS="1",
    )
    assert done.stderr.count("SPYRE_THREDS has no effect; is SPYRE_THREADS meant?") == 1


def test_every_variable_that_is_read_is_known():
    read = set()
    for folder, suffix in (("python", "*.py"), ("src", "*.c"), ("packages", "*.py")):
        for path in (ROOT / folder).rglob(suffix):
            read |= set(re.findall(r'"(SPYRE_[A-Z_]+)"', path.read_text()))
    tables = ("src/base/environment.def", "include/spyre/setting.def")
    known = re.findall(r"\bSPYRE_[A-Z_]+\b", "".join((ROOT / t).read_text() for t in tables))
    assert len(read) > 30 and read <= set(known)


def test_two_cards_hold_their_own_tensors(run_python):
    run_python(
        PRELUDE + "a = torch.arange(8.).to('spyre:0')\n"
        "b = a.to('spyre:1')\n"
        "assert b.device.index == 1 and b.cpu().equal(a.cpu())\n"
        "with torch.spyre.device(1):\n"
        "    assert torch.zeros(2, device='spyre').device.index == 1\n"
        "assert torch.spyre.current_device() == 0\n",
        AIU_WORLD_SIZE="2",
    )


def test_names_of_the_api(run_python):
    """Where scripts for the device look names up; none of it starts a card."""
    run_python(
        PRELUDE + "import inspect\n"
        "from torch_spyre._inductor.errors import Unsupported\n"
        "from torch_spyre.ops.fallbacks import FallbackWarning\n"
        "assert Unsupported is torch_spyre.Unsupported\n"
        "assert FallbackWarning is torch_spyre.FallbackWarning\n"
        "assert torch.Tensor._spyre_tensor_patched is True\n"
        "assert torch.ones(2).device_tensor_layout() is None\n"
        "torch_spyre.SpyreTensorLayout([2, 64], torch.float16)\n"
        "for function in (torch.Tensor.to, torch.empty):\n"
        "    assert 'device_layout' in inspect.signature(function).parameters\n"
        "assert not torch.spyre.is_initialized()\n"
    )


def test_one_version():
    """That of include/spyre/version.h, for the package and its metadata."""
    header = pathlib.Path(__file__).parents[2] / "include" / "spyre" / "version.h"
    version = re.search(r'#define SPYRE_VERSION "(.+)"', header.read_text())[1]
    assert torch_spyre.__version__ == version == importlib.metadata.version("torch-spyre")
