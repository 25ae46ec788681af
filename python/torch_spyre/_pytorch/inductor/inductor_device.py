# SPDX-License-Identifier: Apache-2.0
"""What Inductor knows of the device, under torch-spyre's names.

torch.compile(f) does not need it: its graphs of the card go to `spyre_backend` before Inductor sees
them. It is for those who call Inductor by itself (`compile_fx`, `torch._inductor.compile`,
`standalone_compile`). Inductor then runs its own decompositions and passes; its last pass over a
graph of the card is `WholeGraphPass` here, which compiles the graph and leaves one operator in its
place, `spyre::run_graph`, so that Inductor makes no kernel: it only writes the call.

PyTorch asks for `torch.spyre.Scheduling` when Inductor is first used, and by that imports this
module, which then registers itself.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import torch
from torch._inductor.codegen.common import (
    DeviceOpOverrides,
    register_backend_for_device,
    register_device_op_overrides,
)
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.custom_graph_pass import CustomGraphModulePass, get_hash_for_files
from torch._inductor.lowering import make_fallback
from torch._inductor.scheduler import BaseScheduling
from torch._inductor.utils import IndentedBuffer
from torch._inductor.virtualized import V

from ... import _C
from ...compile import backend
from ...constants import DEVICE_NAME
from .. import compile_options


class SuperDSCScheduling(BaseScheduling):
    """Kernels of the card are not made from Inductor's loops: none may be left to it."""

    def _refuse(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise _C.Unsupported(
            "Inductor would make a kernel for spyre itself: use torch.compile(f) or backend='spyre'"
        )

    group_fn = can_fuse_vertical = can_fuse_horizontal = fuse = _refuse
    codegen_node = codegen_template = codegen_combo_kernel = _refuse

    def codegen_sync(self) -> None:
        """Nothing: launches of a stream run in order."""

    def flush(self) -> None:
        """Nothing: no kernel is under way."""


class SpyrePythonWrapperCodegen(PythonWrapperCodegen):
    """The code around `spyre::run_graph`. It names a graph of this process: no file may keep it."""

    supports_caching = False

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> PythonWrapperCodegen:
        """Inductor's constructor, which names the class that it makes."""
        if is_subgraph:
            made: PythonWrapperCodegen = PythonWrapperCodegen.create(
                is_subgraph, subgraph_name, parent_wrapper, partition_signatures
            )
            return made
        return SpyrePythonWrapperCodegen()  # type: ignore[no-untyped-call]

    def generate_end(self, result: IndentedBuffer) -> None:
        super().generate_end(result)
        graph: Any = V.graph.module.graph
        calls = graph.find_nodes(op="call_function", target=RUN_GRAPH)
        if calls:
            result.writeline(f"from {__name__} import give_away")
            result.writeline(f"give_away(globals(), {[call.args[0] for call in calls]})")


class SpyreDeviceOpOverrides(DeviceOpOverrides):
    """How Python code speaks of cards."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"{name} = torch.spyre.current_stream"

    def set_device(self, device_idx: int) -> str:
        return f"torch.spyre.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.spyre.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.spyre.device({device_idx})"


# ---- a whole graph as one operator

_numbers = itertools.count()


class _Graph:
    """What `spyre::run_graph` runs: a compiled graph, which of its inputs are tensors, and what it
    returns while Inductor traces it."""

    def __init__(
        self, run: backend.Runnable, is_tensor: list[bool], fakes: list[torch.Tensor]
    ) -> None:
        self.run = run
        self.is_tensor = is_tensor  # by input of the graph
        self.fakes = fakes

    def __call__(self, tensors: Iterable[torch.Tensor], sizes: Iterable[int]) -> list[torch.Tensor]:
        by_kind: dict[bool, Iterator[Any]] = {True: iter(tensors), False: iter(sizes)}
        return list(self.run([next(by_kind[tensor]) for tensor in self.is_tensor]))


# By the number that calls name. The graph module that Inductor works at owns a graph, then the
# function that Inductor returns.
_graphs: weakref.WeakValueDictionary[int, _Graph] = weakref.WeakValueDictionary()


class _Call:
    """The function that Inductor returns, and the graphs that it runs."""

    def __init__(self, call: Callable[..., Any], graphs: list[_Graph]) -> None:
        self.call = call
        self.graphs = graphs

    def __call__(self, args: Any) -> Any:
        return self.call(args)


def give_away(names: dict[str, Any], numbers: list[int]) -> None:
    """Of a module that Inductor has written, by its globals: who first reads its function `call`
    owns it, and the graphs of these numbers. The module itself stays for the life of a process."""
    call = _Call(names.pop("call"), [_graphs[number] for number in numbers])
    held, known = [call], weakref.ref(call)

    def missing(name: str) -> Any:
        found = (held.pop() if held else known()) if name == "call" else None
        if found is None:
            raise AttributeError(f"module {names['__name__']!r} has no attribute {name!r}")
        return found

    names["__getattr__"] = missing


_library = torch.library.Library("spyre", "FRAGMENT")  # noqa: TOR901
# A result may be a view of an input, which the schema has to say.
_library.define("run_graph(int graph, Tensor(a)[] tensors, SymInt[] sizes) -> Tensor(a)[]")
torch.library.impl(_library, "run_graph", "CompositeExplicitAutograd")(
    lambda graph, *inputs: _graphs[graph](*inputs)
)
torch.library.register_fake("spyre::run_graph", lib=_library)(
    lambda graph, *_inputs: list(_graphs[graph].fakes)
)
RUN_GRAPH = torch.ops.spyre.run_graph.default
# A graph may write its inputs. It stands alone, so that nothing can be ordered wrongly, and the
# schema need not tell; but it must not be dropped when it returns nothing.
torch.fx.node.has_side_effect(RUN_GRAPH)
# Known to Inductor, so that `torch._inductor.config.implicit_fallbacks` may be off.
make_fallback(RUN_GRAPH)


class WholeGraphPass(CustomGraphModulePass):
    """Puts `spyre::run_graph` in the place of all that a graph computes."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        if V.aot_compilation:
            raise _C.Unsupported(compile_options.NO_AOT)
        output: Any = gm.graph.output_node()
        given: Any = output.args[0]
        results = [r for r in dict.fromkeys(given) if _is_computed_tensor(r)]
        inputs = gm.graph.find_nodes(op="placeholder")
        number = next(_numbers)
        tensors = [node for node in inputs if isinstance(node.meta.get("val"), torch.Tensor)]
        sizes = [node for node in inputs if node not in tensors]
        fakes = [result.meta["val"] for result in results]
        run = backend.compile_aten(_inner(gm, results), [node.meta.get("val") for node in inputs])
        graph = _Graph(run, [node in tensors for node in inputs], fakes)
        _graphs[number] = gm.meta["spyre_graph"] = graph
        written = [copy for copy in _copies(gm.graph) if copy.args[0].op == "placeholder"]
        with gm.graph.inserting_before(output):
            call = gm.graph.call_function(RUN_GRAPH, (number, tensors, sizes))
            call.meta["val"] = fakes
            items = {r: _item(gm.graph, call, i) for i, r in enumerate(results)}
        output.args = (type(given)(items.get(r, r) for r in given),)
        for copy in written:
            gm.graph.erase_node(copy)
        gm.graph.eliminate_dead_code()
        gm.recompile()

    def uuid(self) -> bytes:
        return get_hash_for_files((__file__,))


def _is_computed_tensor(result: Any) -> bool:
    return (
        isinstance(result, torch.fx.Node)
        and result.op != "placeholder"
        and isinstance(result.meta.get("val"), torch.Tensor)
    )


def _copies(graph: torch.fx.Graph) -> list[Any]:
    return list(graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default))


def _inner(gm: torch.fx.GraphModule, results: list[torch.fx.Node]) -> torch.fx.GraphModule:
    """A copy of the graph that returns `results`."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.graph_copy(gm.graph, copies)
    graph.output([copies[result] for result in results])
    return torch.fx.GraphModule(gm, graph)


def _item(graph: torch.fx.Graph, call: torch.fx.Node, index: int) -> torch.fx.Node:
    item = graph.call_function(operator.getitem, (call, index))
    item.meta["val"] = call.meta["val"][index]
    return item


register_device_op_overrides(DEVICE_NAME, SpyreDeviceOpOverrides())
register_backend_for_device(
    DEVICE_NAME,
    SuperDSCScheduling,
    SpyrePythonWrapperCodegen,
    device_custom_pass=WholeGraphPass(),
)
