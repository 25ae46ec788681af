# SPDX-License-Identifier: Apache-2.0
"""The device registers itself silently and starts late."""

PRELUDE = "import torch, torch_spyre\n"


def test_import_is_silent_and_lazy(run_python):
    done = run_python(
        PRELUDE + "assert torch.spyre.is_available()\n"
        "assert torch.device('spyre').type == 'spyre'\n"
        "assert not torch.spyre.is_initialized()\n"
        "torch.empty(1, device='spyre')\n"
        "assert torch.spyre.is_initialized()\n"
    )
    assert done.stdout == "" and done.stderr == ""


def test_a_forked_child_is_refused(run_python):
    run_python(
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
        ({"AIU_WORLD_SIZE": "99"}, 8),
        ({"SPYRE_DEVICES": "0,2,2,77"}, 2),
        ({"SPYRE_DEVICES": "0,1,2,3", "AIU_WORLD_SIZE": "3"}, 3),
    ]:
        run_python(PRELUDE + f"assert torch.spyre.device_count() == {count}", **environment)


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
