# SPDX-License-Identifier: Apache-2.0
"""What the package keeps in Python does not grow with the number of different programs, shapes,
warnings, streams or graphs that a process has seen."""

import collections
import gc
import itertools
import sys
import weakref
from typing import Any

import pytest
import torch
import torch.utils.weak
import torch_spyre
from host_ops import on_host
from torch._inductor.compile_fx import compile_fx
from torch_spyre import config
from torch_spyre._pytorch.inductor import inductor_device

TABLES = (
    dict, list, set, collections.deque, weakref.WeakKeyDictionary, weakref.WeakValueDictionary,
    weakref.WeakSet, torch.utils.weak.WeakTensorKeyDictionary,
)  # fmt: skip


def _is_own(value: Any) -> bool:
    name = getattr(type(value), "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] == "torch_spyre"


def _parts(value: Any) -> list[tuple[str, Any]]:
    """What an object or a table of the package holds."""
    if isinstance(value, dict):
        return [(f"[{key!r}]"[:60], item) for key, item in list(value.items())]
    if isinstance(value, (list, tuple, set, collections.deque)):
        return [(f"[{i}]", item) for i, item in enumerate(list(value))]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    found = dict(getattr(value, "__dict__", {}))
    found |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
    if callable(value):
        cells = getattr(value, "__closure__", None) or ()
        found |= {f"<cell {i}>": c.cell_contents for i, c in enumerate(cells) if _is_filled(c)}
    return [(f".{name}", item) for name, item in found.items()]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def sizes() -> dict[str, int]:
    """Entries by table: of modules, classes and objects of the package, caches of functions."""
    found: dict[str, int] = {}
    seen: set[int] = set()

    def visit(path: str, value: Any, depth: int) -> None:
        if id(value) in seen or depth > 6:
            return
        seen.add(id(value))
        if isinstance(value, TABLES):
            found[path] = len(value)
        function = callable(value) and str(getattr(value, "__module__", None)).startswith(
            "torch_spyre"
        )
        if function and hasattr(value, "cache_info"):
            info = value.cache_info()
            found[path] = info.currsize
            assert info.maxsize is not None or info.currsize < 8, path
        if isinstance(value, (*TABLES, tuple)) or _is_own(value) or function:
            for name, part in _parts(value):
                visit(path + name, part, depth + 1)

    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] == "torch_spyre":
            for key, value in list(vars(module).items()):
                if not key.startswith("__"):
                    visit(f"{name}.{key}", value, 0)
    return found


numbers = itertools.count(1)


def use_something_new(n: int) -> None:
    """Shapes, numbers, graphs, streams, layouts, refusals, warnings that no other `n` uses."""
    x = torch.ones(n, 70, dtype=torch.float16, device="spyre")
    _ = (x * (0.3 + n), x.pow(0.3 + n), torch.cat([x] * (n % 30 + 1)), x.t() @ x)
    with torch_spyre.fallback("silent"):
        on_host(x)
        torch.stack([x[0]] * n).mode(0)
        torch.compile(lambda x: on_host(x * n), dynamic=False)(x)
        torch.compile(lambda x: x * n + 1, backend=compile_fx, dynamic=False)(x)
    with torch.spyre.stream(torch.spyre.Stream()):
        x.add_(1)
    event = torch.spyre.Event()
    event.record()
    event.synchronize()
    layout = torch_spyre.SpyreTensorLayout([n, 70], torch.float16)
    repr(x.to("cpu").to("spyre", device_layout=layout))
    for wrong in (
        lambda: torch.cat([x, x[:, 1:]]),
        lambda: x.view(n + 1, 71),
        lambda: x.to("spyre:99"),
    ):
        with pytest.raises((RuntimeError, ValueError)):
            wrong()


def work(count: int) -> None:
    for _ in range(count):
        use_something_new(next(numbers))
        torch._dynamo.reset()
    torch.spyre.synchronize()
    gc.collect()


def test_no_table_grows() -> None:
    with config.patch(eager_bytes=1 << 20, graph_bytes=1 << 20, report_bytes=1 << 14):
        work(70)  # what is bounded is full
        before = sizes()
        work(30)
        after = sizes()
    assert len(before) > 200
    grown = {path: (before.get(path, 0), n) for path, n in after.items() if n > before.get(path, 0)}
    assert not grown


class _Keeper:
    __module__ = "torch_spyre"
    of_class: list[int] = []

    def __init__(self) -> None:
        self.of_object = {"a": [1, 2]}


def test_tables_are_found_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, own = _Keeper(), collections.deque([1])
    monkeypatch.setattr(torch_spyre, "planted", [keeper, own], raising=False)
    found = {path: n for path, n in sizes().items() if "planted" in path}
    assert sorted(found.values()) == [1, 1, 2, 2]


def test_a_graph_that_inductor_calls_goes_with_its_function() -> None:
    torch._dynamo.reset()
    gc.collect()
    before = len(inductor_device._graphs)
    x = torch.ones(4, 64, dtype=torch.float16, device="spyre")
    compiled = torch.compile(lambda x: x * 2, backend=compile_fx)
    assert compiled(x)[0, 0].item() == 2
    gc.collect()
    assert compiled(x)[0, 0].item() == 2
    assert len(inductor_device._graphs) == before + 1
    del compiled
    torch._dynamo.reset()
    gc.collect()
    assert len(inductor_device._graphs) == before
