# SPDX-License-Identifier: Apache-2.0
"""The Dynamo backends `sendnn`, `sendnn_decoder` and `sendnn_compile_only`.

Such a graph is computed by the card behind the back of a program whose tensors are all on the CPU,
through the compiler, and what it returns is on the CPU. Parameters and buffers stay on the card
(resident.py). Of a graph whose tensors are on the device the backend computes what should come out
(reference.py).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .._pytorch import pytree
from .._pytorch.dispatch import map_parts, outside_inference_mode, version_of
from .._pytorch.dynamo import fake_of, is_static_input
from ..compile import backend as driver
from ..compile import options as compile_options
from ..compile.backend import Values
from . import environment_variables, experts, fits_card, late_rows, paged, recording, resident
from .paged_calls import PagedCalls
from .reference import compile_reference, to_host

_PREFIX = "sendnn."
_KNOWN = {"sendnn.dynamic": bool}
_RESULTS = {"default_results": True}  # they go to the CPU, or as rows into a KV cache


def sendnn_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Values,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """What torch.compile(f, backend="sendnn", mode=, options=) calls with a graph of Dynamo."""
    environment_variables.say_what_has_no_effect()
    settings = _settings(mode, options)
    tensors = [*example_inputs, *gm.parameters(), *gm.buffers()]
    if any(isinstance(t, torch.Tensor) and t.device.type == "spyre" for t in tensors):
        return compile_reference(gm, example_inputs)
    return OnCard(gm, settings)


def sendnn_decoder_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Values,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The name that decoders had for `sendnn`."""
    return sendnn_backend(gm, example_inputs, mode, options)


def sendnn_compile_only_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Values,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles the graph for each call that has new sizes, and launches nothing: results have
    their sizes and dtypes, and zeros in them."""
    graph = sendnn_backend(gm, example_inputs, mode, options)

    def compile_only(*args: Any) -> Any:
        with driver.without_launch():
            return graph(*args)

    return compile_only


def _settings(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings of the compiler among the options. Raises RuntimeError for an unknown option."""
    own = {key: value for key, value in (options or {}).items() if key.startswith(_PREFIX)}
    for key, value in own.items():
        if key not in _KNOWN:
            raise RuntimeError(f"Unexpected option {key} of backend sendnn, known: {list(_KNOWN)}")
        if not isinstance(value, _KNOWN[key]):
            expected = _KNOWN[key].__name__
            raise RuntimeError(f"option {key}={value!r} of backend sendnn: expected a {expected}")
    rest = {key: value for key, value in (options or {}).items() if key not in own}
    return _RESULTS | compile_options.of_backend(mode, rest)


class OnCard:
    """A graph of the CPU, computed by the card. It is traced once for all sizes; a gradient makes
    it one trace for each."""

    def __init__(self, gm: torch.fx.GraphModule, settings: dict[str, Any]):
        fakes = [fake_of(node) for node in gm.graph.find_nodes(op="placeholder")]
        moved = _move(gm)
        self.cache: PagedCalls | None = None
        self.has_room = False  # what it keeps on the card has been found to fit
        is_traced_once = None not in fakes and not _wants_gradient(fakes)
        if is_traced_once:
            self.cache = _paged(moved, fakes)
        placeholders = moved.graph.find_nodes(op="placeholder")
        self.moves = [_Move(node) for node in placeholders]
        self.copies: resident.Copies | None = None  # of the last call without a gradient
        if not is_traced_once:
            self.compiled = torch.compile(moved, backend="spyre", dynamic=False, options=settings)
            return
        on_card = [f.to("spyre") if isinstance(f, torch.Tensor) else f for f in fakes]
        of_aten = self.cache.look_at if self.cache else None
        with torch.device("spyre"):
            self.compiled = driver.compile_graph_of_user(moved, on_card, settings, of_aten)
        if self.cache:
            self.cache.end_late([_End(tail, settings) for tail in self.cache.plan.tails])

    def __call__(self, *args: Any) -> Any:
        if not self.has_room:
            parameters = [a for a in args if isinstance(a, torch.nn.Parameter)]
            caches = self.cache.caches_of(args) if self.cache else []
            fits_card.check(parameters, caches, self.cache.most_bytes(args) if self.cache else 0)
            self.has_room = True
        if self.cache:
            return self.cache.call(self, args)
        with recording.recorded(recording.Step("graph", self._batch(args))):
            return self._call(args)

    def _batch(self, args: Values) -> int:
        """The largest dim 0 of a tensor that varies."""
        varying = [a for a, move in zip(args, self.moves, strict=True) if not move.is_static]
        sizes = [a.shape[0] for a in varying if isinstance(a, torch.Tensor) and a.dim()]
        return max(sizes, default=0)

    def _call(self, args: Values) -> Any:
        """Results on the CPU of a graph without paged attention."""
        on_card = self.move(args)
        versions = [version_of(a) if isinstance(a, torch.Tensor) else 0 for a in on_card]
        results = pytree.tree_map(to_host, self.compiled(*on_card))
        for given, used, version in zip(args, on_card, versions, strict=True):
            if isinstance(used, torch.Tensor) and version_of(used) != version:
                given.copy_(used)
        return results

    def compute(self, moved: Values) -> Any:
        """Results of the graph on the card, of inputs there."""
        return self.compiled(*moved)

    def move(self, args: Values) -> list[Any]:
        """The arguments on the card."""
        moved, wants_none = list(args), not torch.is_grad_enabled()
        known = wants_none and self.copies is not None and self.copies.put(args, moved)
        with outside_inference_mode():
            for i in self.copies.others if known and self.copies else range(len(args)):
                moved[i] = self.moves[i](args[i])
        if wants_none and not known:
            stay = [i for i, move in enumerate(self.moves) if move.stays(args[i])]
            self.copies = resident.Copies(args, stay, moved)
        return moved


class _End:
    """A graph's end (late_rows.Tail) on the card."""

    def __init__(self, tail: late_rows.Tail, settings: dict[str, Any]):
        self.tail = tail
        self.settings = settings
        self.moves = [_Move(node) for node in tail.placeholders()]

    def __call__(self, args: Values, table: torch.Tensor) -> late_rows.Compute:
        """`args` of the graph; `table` of the call has the rows that the end takes. Parameters are
        those of now, whatever becomes of them."""
        with outside_inference_mode():
            used = [args[i] for i in self.tail.parameters]
            own = [move(value) for move, value in zip(self.moves, used, strict=True)]
        return functools.partial(self.tail.compute, self._compile, table, own)

    def _compile(self, gm: torch.fx.GraphModule, inputs: Values) -> Callable[..., Any]:
        with torch.device("spyre"), torch.no_grad():
            return driver.compile_graph_of_user(gm, inputs, self.settings)


class _Move:
    """How an input of a graph gets to the card."""

    def __init__(self, node: torch.fx.Node):
        self.is_static = is_static_input(node)
        self.is_multiplied = _is_only_multiplied(node)

    def __call__(self, value: Any) -> Any:
        return map_parts(value, self._part) if isinstance(value, torch.Tensor) else value

    def stays(self, value: Any) -> bool:
        """Whether a copy serves until the tensor changes."""
        is_plain = type(value) in (torch.Tensor, torch.nn.Parameter)
        return is_plain and self._is_kept(value) and not value.is_inference()

    def _is_kept(self, tensor: torch.Tensor) -> bool:
        is_kept = self.is_static or isinstance(tensor, torch.nn.Parameter)
        return is_kept and tensor.device.type == "cpu"

    def _part(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "spyre":
            return tensor
        if _wants_gradient([tensor]):
            return tensor.to("spyre")
        if self._is_kept(tensor):
            return resident.on_card(tensor, self.is_multiplied)
        return tensor.detach().to("spyre")


def _paged(moved: torch.fx.GraphModule, fakes: list[Any]) -> PagedCalls | None:
    """Calls of a graph with paged attention, which is rewritten; None of any other graph."""
    try:
        plan = paged.rewrite(moved, fakes)
    except paged.NotPaged as why:
        environment_variables.log.warning("paged attention runs on the host: %s", why)
        return None
    return PagedCalls(plan, fakes) if plan else None


def _wants_gradient(values: Values) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in values
    )


def _move(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same graph with the device in the place of the CPU."""
    moved = copy.deepcopy(gm).to("spyre")
    for node in moved.graph.nodes:
        node.args, node.kwargs = pytree.tree_map(_to_card_device, (node.args, node.kwargs))
    experts.rewrite(moved.graph)
    moved.recompile()
    return moved


def _to_card_device(value: Any) -> Any:
    is_host = value == "cpu" or isinstance(value, torch.device) and value.type == "cpu"
    return torch.device("spyre") if is_host else value


def _is_only_multiplied(node: torch.fx.Node) -> bool:
    """Whether all that reads a placeholder takes it for the weight of a `Linear`."""
    return bool(node.users) and all(
        user.target is torch.nn.functional.linear
        and len(user.args) > 1
        and user.args[1] is node
        and user.args[0] is not node
        for user in node.users
    )
