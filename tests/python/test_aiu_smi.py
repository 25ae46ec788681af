# SPDX-License-Identifier: Apache-2.0
"""A monitor beside a program: two processes, as in two terminals."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPYRE = pathlib.Path(os.environ.get("SPYRE_CLI", ROOT / "build" / "release" / "spyre"))
WORKLOAD = """
import torch, torch_spyre
kept = torch.empty(1 << 25, dtype=torch.float16, device="spyre")
x = torch.ones(256, 256, dtype=torch.float16).to("spyre")
f = torch.compile(lambda x: torch.relu(x @ x))
f(x)
counters = torch_spyre.last_report().counters
print(sum(k["pt_busy_us"] for k in counters) / sum(k["us"] for k in counters), flush=True)
while True:
    f(x).cpu()
"""


def test_the_monitor_sees_the_load_that_the_counters_have(tmp_path):
    config = tmp_path / "smi.json"
    config.write_text(json.dumps({"metrics": {"path": f"{tmp_path}/metrics.%BUSID"}}))
    environment = os.environ | {"SENLIB_DEVEL_CONFIG_FILE": str(config)}
    program = [sys.executable, "-c", WORKLOAD]
    with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, text=True) as workload:
        try:
            expected = 100 * float(workload.stdout.readline())
            arguments = ["smi", "-s", "-d", "0.3", "-c", "3", "-g", "DUP"]
            output = subprocess.check_output(
                [SPYRE, *arguments, tmp_path / "metrics.%BUSID"], text=True
            )
        finally:
            workload.kill()
    header, *rows = (line.split(",") for line in output.splitlines())
    for row in rows[1:]:  # the first may begin while the program is being compiled
        values = dict(zip(header, row, strict=True))
        assert float(values["busy"]) > 0
        assert float(values["rdmem"]) > 0 and float(values["txpci"]) > 0
        assert float(values["rxpci"]) == 0 and float(values["rdrdma"]) == 0
        assert float(values["actmem"]) == pytest.approx(1 / 16, rel=0.05)  # GiB
        assert float(values["pt_active"]) == pytest.approx(expected, rel=0.05)
