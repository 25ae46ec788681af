# SPDX-License-Identifier: Apache-2.0
"""torchrun on two machines: network namespaces, which take root and iproute2."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

PROGRAM = """
import torch, torch.distributed as dist
import torch.distributed._functional_collectives as functional
dist.init_process_group("cpu:gloo,spyre:spyreccl")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.full((4, 64), rank + 1.0, dtype=torch.float16, device="spyre")
dist.all_reduce(x)
assert (x.cpu() == size * (size + 1) / 2).all()
step = torch.compile(lambda t: functional.all_gather_tensor(t * 2, 0, dist.group.WORLD) + 1)
assert step(x).shape == (4 * size, 64) and (step(x).cpu() == size * (size + 1) + 1).all()
large = torch.arange(3 << 20, device="spyre") * (rank + 1)
dist.broadcast(large, size - 1)
assert large[-1].item() == ((3 << 20) - 1) * size
dist.destroy_process_group()
print("rank", rank, "has ended well")
"""


@pytest.fixture
def machines():
    names = [f"spyrepy{os.getpid()}.{n}" for n in range(2)]
    ends = [f"sy{n}{os.getpid() % 100000}" for n in range(2)]
    lines = [f"ip netns add {name}" for name in names]
    lines.append(f"ip link add name {ends[0]} type veth peer name {ends[1]}")
    for n, (name, end) in enumerate(zip(names, ends, strict=True)):
        lines.append(f"ip link set {end} netns {name} name eth0")
        lines.append(f"ip -n {name} addr add 10.79.0.{n + 1}/24 dev eth0")
        lines += [f"ip -n {name} link set {link} up" for link in ("eth0", "lo")]
    try:
        for line in lines:
            subprocess.run(line.split(), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces here: {error}")
    yield names
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_torchrun_on_two_machines(machines, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    runs = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run",
             "--nnodes=2", "--nproc-per-node=2", f"--node-rank={n}", "--master-addr=10.79.0.1",
             "--master-port=29555", str(script)],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "eth0"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for n, name in enumerate(machines)
    ]  # fmt: skip
    said = "".join(run.communicate(timeout=300)[0] for run in runs)
    assert [run.returncode for run in runs] == [0, 0], said
    assert sorted(line for line in said.splitlines() if "ended well" in line) == [
        f"rank {rank} has ended well" for rank in range(4)
    ]
