# SPDX-License-Identifier: Apache-2.0
"""Which side of the stack is wrong, and the archive for those who have to find out."""

import subprocess
import sys
import tarfile

import pytest
import torch
from host_ops import UNKNOWN
from torch_spyre import registry
from torch_spyre.compile import segment_launch
from torch_spyre.debug import bisect

PROGRAM = f"""
import torch

def f(x, y):
    return torch.softmax(x @ y.t(), -1) + torch.ops.{UNKNOWN}(x, x)

x, y = (torch.rand(24, 24, dtype=torch.float16).to("spyre") for _ in range(2))
torch.compile(f, dynamic=False)(x, y)
"""


@pytest.fixture
def judge(tmp_path, capsys, monkeypatch):
    """judge() -> (exit code, the line of the program's graph)."""
    torch._dynamo.reset()
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)

    def run():
        code = bisect.main([str(script)])
        _title, line = capsys.readouterr().out.strip().splitlines()
        return code, line

    return run


@pytest.mark.host(UNKNOWN)
def test_nothing_is_wrong(judge):
    code, line = judge()
    assert code == 0
    assert line.split()[1] == "yes" and " nothing " in line and "_softmax" in line


@pytest.mark.host(UNKNOWN)
def test_a_fault_of_the_front_end(judge):
    softmax = torch.ops.aten._softmax.default
    registry.spyre_lowerings[softmax] = lambda x, dim, half: torch.sigmoid(x)
    try:
        code, line = judge()
    finally:
        registry.spyre_lowerings.pop(softmax)
    assert code == 1 and line.split()[1] == "yes" and " front-end " in line


def test_operators_outside_of_graphs_are_judged(judge, tmp_path, capsys, monkeypatch):
    (tmp_path / "eager.py").write_text(
        "import torch\n"
        "x = torch.rand(24, 24, dtype=torch.float16).to('spyre')\n"
        "for _ in range(3):\n"
        "    y = torch.cat([x, x]) @ x + 1\n"
        "y.mul_(2)\n"
    )

    def lines(code):
        assert bisect.main([str(tmp_path / "eager.py")]) == code
        return [line.split() for line in capsys.readouterr().out.strip().splitlines()[1:]]

    fine = lines(0)
    assert [line[-1] for line in fine] == ["cat.default", "mm.default", "add.Tensor", "mul.Tensor"]
    assert {(line[0], line[1], line[3]) for line in fine} == {("eager", "yes", "nothing")}
    launch = segment_launch.Launch.__call__
    wrong = lambda self, *given: [r + 1 for r in launch(self, *given)]  # noqa: E731
    monkeypatch.setattr(segment_launch.Launch, "__call__", wrong)
    assert all(line[1] == "NO" for line in lines(1))


def test_what_a_graph_changes_is_judged(tmp_path, capsys):
    graph = tmp_path / "update.py"
    graph.write_text(
        "import torch\n"
        "def update(x, y):\n"
        "    x.add_(y)\n"
        "x, y = (torch.rand(24, 24, dtype=torch.float16).to('spyre') for _ in range(2))\n"
        "torch.compile(update, dynamic=False)(x, y)\n"
    )
    assert bisect.main([str(graph)]) == 0
    assert "0.000" in (line := capsys.readouterr().out.splitlines()[1]) and " yes " in line


@pytest.mark.host(UNKNOWN)
def test_a_fault_behind_it(judge, monkeypatch):
    launch = segment_launch.Launch.__call__
    wrong = lambda self, *given: [r + 1 for r in launch(self, *given)]  # noqa: E731
    monkeypatch.setattr(segment_launch.Launch, "__call__", wrong)
    code, line = judge()
    assert code == 1 and line.split()[1] == "NO" and " back-end or card " in line


def test_a_missing_script(capsys):
    assert bisect.main(["absent.py"]) == 2
    assert "absent.py: no such file" in capsys.readouterr().err


def test_graphs_that_change_their_inputs(tmp_path, capsys):
    script = tmp_path / "program.py"
    script.write_text(
        "import torch\n"
        "def f(x):\n"
        "    x.add_(1)\n"
        "    return x * 2\n"
        "x = torch.zeros(3, 5).half().to('spyre')\n"
        "print(torch.compile(f, dynamic=False)(x).cpu().sum().item(), x.cpu().sum().item())\n"
    )
    assert bisect.main([str(script)]) == 0
    assert "30.0 15.0" in capsys.readouterr().out


def test_the_archive(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "torch_spyre.debug.bug_report",
        "-o",
        "bug.tar.gz",
        script.name,
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.startswith("bug.tar.gz\n[x] reproducer: program.py\n")
    with tarfile.open(tmp_path / "bug.tar.gz") as tar:
        names = tar.getnames()
        read = lambda name: tar.extractfile(f"bug/{name}").read().decode()  # noqa: E731
        assert read("program.py") == PROGRAM
        assert f"torch {torch.__version__}" in read("versions.txt")
        assert "spyre copy to card: shape [24, 24]" in read("log.txt")
        assert " nothing " in read("bisect.txt")
        assert "the program ended with 0" in read("CHECKLIST.txt")
    assert any(name.endswith("sdsc_0.json") for name in names)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bug.tar.gz", "program.py"]


def test_parts_of_results_are_no_operators(judge, tmp_path):
    (tmp_path / "program.py").write_text(
        PROGRAM.replace("torch.softmax(x @ y.t(), -1)", "sum(x.split(8))").replace(
            f"torch.ops.{UNKNOWN}(x, x)", "y[:8]"
        )
    )
    code, line = judge()
    assert code == 0 and "split" in line and "getitem" not in line
