# SPDX-License-Identifier: Apache-2.0
"""The compile cache seen from PyTorch. What it makes of damaged files and of processes that share
a directory: tests/unit/compile."""

import gc
import json

import pytest
import torch
import torch_spyre
from torch_spyre import _C

PROGRAM = """
import json, torch, torch_spyre
x = torch.arange(256).reshape(4, 64).half().to("spyre")
x = torch.compile(lambda x: (x * 2 + x).softmax(-1))(x + x)
print(json.dumps([torch_spyre.compile_statistics(), x.cpu().tolist()]))
"""
COUNT = 2  # the sum, and the compiled graph


@pytest.fixture
def fresh(run_python, tmp_path):
    """Runs a program in a new process with the test's cache: counters, result, stderr."""

    def run(**environment):
        settings = {"SPYRE_CACHE": "1", "SPYRE_CACHE_DIR": str(tmp_path), **environment}
        done = run_python(PROGRAM, **settings)
        return *json.loads(done.stdout), done.stderr

    return run


def test_second_process_compiles_nothing(fresh, tmp_path):
    first, expected, _ = fresh()
    assert first["compilations"] == first["misses"] == first["stores"] == COUNT
    assert len(list(tmp_path.iterdir())) == COUNT
    second, result, _ = fresh()
    assert second["compilations"] == second["misses"] == second["stores"] == 0
    assert second["disk_hits"] == COUNT
    assert result == expected


def test_off_keeps_nothing(fresh, tmp_path):
    counters, _, _ = fresh(SPYRE_CACHE="0")
    assert counters["compilations"] == COUNT
    assert counters["misses"] == counters["stores"] == 0
    assert list(tmp_path.iterdir()) == []


def test_damage_is_said_and_repaired(fresh, tmp_path):
    _, expected, _ = fresh()
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    counters, result, errors = fresh(SENCORES="32")
    assert counters["rejected"] == counters["compilations"] == COUNT
    assert errors.count("spyre warning: compile cache: removed") == COUNT
    assert result == expected
    counters, _, errors = fresh(SENCORES="8")  # others, and the files are whole again
    assert counters["rejected"] == counters["disk_hits"] == 0
    assert counters["compilations"] == COUNT
    assert "warning: compile cache" not in errors
    assert len(list(tmp_path.iterdir())) == 2 * COUNT


def test_unusable_directory_is_one_warning(fresh, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    counters, _, errors = fresh(SPYRE_CACHE_DIR=str(file))
    assert counters["compilations"] == counters["store_failures"] == COUNT
    lines = [line for line in errors.splitlines() if "spyre warning" in line]
    assert len(lines) == 1
    assert str(file) in lines[0]


def _graph(x):
    graph = _C.Graph()
    value = graph.add_input("x", x)
    shape = [list(x.shape), list(x.stride()), 0]
    arguments = [(value,), (value,), 1]
    _node, (result,) = graph.add_node(
        "twice", "aten.add.Tensor", arguments, [(x.dtype, True, *shape)], "model.py:1"
    )
    graph.add_output(result)
    return graph


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """An empty cache, and a function: how much the counters have grown since it was asked last."""
    monkeypatch.setenv("SPYRE_CACHE", "1")
    monkeypatch.setenv("SPYRE_CACHE_DIR", str(tmp_path))
    last = torch_spyre.compile_statistics()

    def growth():
        nonlocal last
        now = torch_spyre.compile_statistics()
        grown = {name: value - last[name] for name, value in now.items() if value != last[name]}
        last = now
        return {name: value for name, value in grown.items() if not name.endswith("_us")}

    return growth


def _compile(x, dump=None):
    return _C.compile(_graph(x), {}, dump, True)


def test_equal_graphs_share_a_program(counted):
    x = torch.zeros(4, 64, dtype=torch.float16, device="spyre")
    counted()
    first = _compile(x)
    assert counted() == {"compilations": 1, "attempts": 1, "misses": 1, "stores": 1}
    second = _compile(x)
    assert counted() == {"memory_hits": 1}
    assert second.address() == first.address()
    del first, second
    _compile(x)
    assert counted() == {"disk_hits": 1}


def test_layout_is_part_of_the_key(counted):
    x = torch.zeros(64, 128, dtype=torch.float16, device="spyre")
    layout = torch_spyre.SpyreTensorLayout([64, 128], [128, 1], torch.float16, [1, 0])
    moved = x.to("spyre", device_layout=layout)
    assert moved.device_tensor_layout() != x.device_tensor_layout()
    counted()
    one, other = _compile(x), _compile(moved)
    assert counted()["compilations"] == 2
    assert one.address() != other.address()


def test_a_dump_is_of_a_compilation(counted, tmp_path):
    x = torch.zeros(4, 64, dtype=torch.float16, device="spyre")
    _compile(x)
    counted()
    _compile(x, str(tmp_path / "dump"))
    assert counted() == {"compilations": 1, "attempts": 1}
    assert (tmp_path / "dump" / "segment0.listing").exists()


def test_stages_of_a_read_program(counted):
    x = torch.zeros(4, 64, dtype=torch.float16, device="spyre")

    def stages():
        executable = _compile(x)
        return executable.report(), executable.text(0, "loop"), executable.text(0, "listing")

    expected = stages()
    counted()
    assert stages() == expected
    assert counted()["disk_hits"] == 1
    assert all(expected)


def test_corrections_of_sizes_are_read(counted):
    """One program for several sizes, whose two executables a second process finds in files."""

    def make(rows):
        x = torch.zeros(rows, 64, dtype=torch.float16, device="spyre")
        settings = {"symbolic_size": str(rows), "symbolic_granule": "16"}
        return _C.compile(_graph(x), settings, None, True)

    def serve():
        largest, smaller = make(128), make(112)
        assert largest.serve_sizes([smaller], [(16, 112, 128)]) is None
        return largest.at_sizes([48])

    def texts(executable):
        return [executable.text(0, stage) for stage in ("graph", "loop", "bundle", "listing")]

    made = serve()
    expected = made.report(), texts(made)
    del made
    counted()
    read = serve()
    assert counted() == {"disk_hits": 2}
    assert (read.report(), texts(read)) == expected
    assert counted() == {"compilations": 2, "attempts": 2}


def test_corrections_of_two_sizes_are_read(counted):
    def make(rows, length):
        x = torch.zeros(rows, length, 64, dtype=torch.float16, device="spyre")
        settings = {"symbolic_size": str(length), "symbolic_granule": "16",
                    "second_symbolic_size": str(rows), "second_symbolic_granule": "8"}  # fmt: skip
        return _C.compile(_graph(x), settings, None, True)

    def serve():
        smaller = [make(32, 112), make(24, 128), make(24, 112)]
        largest = make(32, 128)
        assert largest.serve_sizes(smaller, [(16, 112, 128), (8, 24, 32)]) is None
        with pytest.raises(ValueError, match="1 sizes are given, the program serves 2"):
            largest.at_sizes([48])
        with pytest.raises(ValueError, match="size 40: the program serves multiples of 16 up to"):
            largest.at_sizes([40, 8])
        return largest.at_sizes([48, 16])

    made = serve().text(0, "listing")
    counted()
    read = serve()
    assert counted() == {"disk_hits": 4}
    assert read.text(0, "listing") == made


def test_corrections_of_constants_are_read(counted):
    """n / (n - 1) of a variance lies in memory."""

    def results():
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: x.var(0))
        for rows in (64, 20, 8):
            x = torch.randn(rows, 64, generator=torch.Generator().manual_seed(rows)).half()
            on_card = x.to("spyre")
            torch._dynamo.mark_dynamic(on_card, 0, min=4, max=64)
            result = compiled(on_card).cpu()
            torch.testing.assert_close(result, x.var(0), rtol=0.004, atol=0.001)
            yield result

    made = list(results())
    torch._dynamo.reset()
    gc.collect()
    counted()
    read = list(results())
    grown = counted()
    assert grown["disk_hits"] == 2 and not {"misses", "stores"} & set(grown)
    assert all(map(torch.equal, made, read))


def test_why_there_are_no_corrections_is_read(counted):
    """Columns that are rounded up to sticks."""

    def make(columns):
        x = torch.zeros(4, columns, dtype=torch.float16, device="spyre")
        return _C.compile(_graph(x), {"symbolic_size": str(columns)}, None, True)

    def refuse():
        return make(100).serve_sizes([make(99)], [(1, 99, 100)])

    why = refuse()
    counted()
    assert refuse() == why
    assert counted() == {"disk_hits": 2}
    assert why
