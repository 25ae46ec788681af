# SPDX-License-Identifier: Apache-2.0
"""tools/ops_table.py: torch-spyre's table of operations holds on the card."""

import importlib.util
from pathlib import Path

from host_ops import UNKNOWN, unknown

TOOL = Path(__file__).parents[2] / "tools/ops_table.py"


def load():
    spec = importlib.util.spec_from_file_location("ops_table", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row():
    """In one of its forms; tests/python compiles each of these operators elsewhere."""
    table = load()
    rows = [row for group in table.GROUPS.values() for row in group]
    assert len(rows) == 97 and len({row.name for row in rows}) == 97
    faults = {row.name: table.check(row, row.forms[0])[1] for row in rows}
    assert not {name: fault for name, fault in faults.items() if fault}


def test_faults_are_found(capsys):
    table = load()
    wrong = table.Row("wrong", "E", "card", lambda x: x + (x.device.type == "spyre"), table._one)
    assert table.check(wrong, "E") == ("card", "values differ")
    host = table.Row("host", "E", "card", unknown, table._one)
    place, fault = table.check(host, "E")
    assert place == "CPU" and f"{UNKNOWN}.out of float16[3, 70]" in fault
    assert table.main(["add", "Comparison"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 7 and printed.err == "7 rows, 0 FAIL\n"
