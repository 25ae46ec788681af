# SPDX-License-Identifier: Apache-2.0
"""Programs under what the host and its environment set and no program asks for."""

import os
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
WORKS = """
import torch
x = torch.arange(256).reshape(4, 64).half().to("spyre")
assert torch.compile(lambda x: x * 2 + x)(x + 1).cpu()[1, 2].item() == 201
"""


def _variables() -> set[str]:
    """What any part of this stack reads under a name of its own."""
    texts = [path.read_text() for path in (ROOT / "python").rglob("*.py")]
    texts += [path.read_text() for path in (ROOT / "python" / "core").glob("*.c")]
    found = set(re.findall(r'"((?:AIU|FLEX|LOCAL|SPYRE|TORCH_S[A-Z]+)_[A-Z_]+)"', "".join(texts)))
    for table, pattern in (("src/base/environment.def", r"\b(SPYRE_[A-Z_]+)"),
                           ("include/spyre/setting.def", r'"([A-Z][A-Z_]+)"')):  # fmt: skip
        found |= set(re.findall(pattern, (ROOT / table).read_text()))
    return found | {"MAX_BUCKETS", "MIN_DEFAULT_GRANULARITY", "LOCAL_RANK", "XDG_CACHE_HOME"}


def test_empty_variables_are_as_if_unset(run_python, tmp_path):
    """Compose files and service managers set variables to "" that they have no value for."""
    variables = dict.fromkeys(_variables(), "")
    assert len(variables) > 60
    group = """
import torch.distributed as dist
dist.init_process_group("cpu:gloo,spyre:spyreccl", init_method="file://" + STORE, rank=0,
                        world_size=1)
dist.all_reduce(x)
dist.destroy_process_group()
from torch_spyre.sendnn import environment_variables
environment_variables.take_cache_folder()
"""
    done = run_python(
        f"STORE = {str(tmp_path / 'store')!r}" + WORKS + group,
        **{**variables, "HOME": str(tmp_path), "LOCAL_WORLD_SIZE": "16", "LOCAL_RANK": "9"},
    )
    assert done.stdout == done.stderr == ""
    assert list((tmp_path / ".cache" / "spyre").iterdir())


def test_the_library_reads_variables_in_one_place():
    """Which knows that an empty one is none."""
    sources = (ROOT / "src").rglob("*.c")
    readers = {path.name for path in sources if re.search(r"\bgetenv\(", path.read_text())}
    of_commands = {"held_log.c", "cmd_smi.c"}  # which see public headers alone
    assert readers - of_commands == {"variable.c"}


def test_a_cache_that_can_neither_be_read_nor_written_is_one_warning(run_python, tmp_path):
    os.symlink("loop", tmp_path / "loop")
    done = run_python(WORKS, SPYRE_CACHE="1", SPYRE_CACHE_DIR=str(tmp_path / "loop"))
    assert done.stderr.count("spyre warning") == done.stderr.count("chooses another directory") == 1


def test_fewer_threads_than_wanted(run_python):
    """A host that refuses threads (here for want of address space, in containers by a limit of
    processes): transfers of 128 KiB and more are divided among threads of their own."""
    program = """
import resource, torch
x, on_host = torch.ones(3, device="spyre"), torch.ones(1 << 18)
y = torch.empty(1 << 18, device="spyre")
assert (x + 1).cpu()[0] == 2
pages = int(open("/proc/self/statm").read().split()[0])
room = pages * resource.getpagesize() + (4 << 20)
most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (room, most[1]))
y.copy_(on_host)
resource.setrlimit(resource.RLIMIT_AS, most)
assert y.cpu().sum() == 1 << 18
"""
    done = run_python(program, SPYRE_THREADS="4")
    assert done.stderr.count("the host starts 1 of 4 threads") == 1, done.stderr


def test_the_package_can_be_loaded_again(run_python):
    """As notebooks do with modules whose files have changed."""
    again = """
import importlib
import torch_spyre
importlib.reload(torch_spyre)
assert (x + 1).cpu()[0, 1] == 2 and torch_spyre.fallback_report() is not None
"""
    run_python(WORKS + again)
