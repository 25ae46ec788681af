# SPDX-License-Identifier: Apache-2.0
"""What a user says about the tiles of a computation and its division over the cores:

    declare_tensor_dim("M", 64)
    declare_tensor_dim("K", 512)
    name_tensor_dims(x, ["M", "K"])

    def fn(x, y):
        with spyre_hint(num_tiles_per_dim={"M": 8}):
            with spyre_hint(work_div={"K": 4}):
                return x @ y

Names spread from named inputs through the compiled function. Consecutive kernels of a scope of
tiles share a loop whose iterations work on one tile each; every kernel of a scope of work_div that
moves along a named dim is divided as asked. What cannot be raises torch_spyre.Unsupported.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch

from ... import _C
from . import named_dims as dims

_numbers = itertools.count(1)
_SCOPE = "_hint_"  # and a number: an entry of an FX node's custom metadata
_TILES = ("num_tiles_per_dim", "tiles", "slices")  # the latter two are torch-spyre's old names


def spyre_hint(**hints: Any) -> AbstractContextManager[Any]:
    """A scope of a compiled function. One or more of

    num_tiles_per_dim={"M": 8}  a loop over 8 tiles of one dim; scopes nest as the loops do
    work_div={"M": 2, "K": 4}   slices of named dims over the cores
    named_dims=["M", "N"]       names of the results of operators without inputs

    Counts of tiles and slices are positive integers.

    Raises: TypeError for other keywords and values of another kind, NotImplementedError for tiles
    of several dims in one scope, Unsupported for counts that are not positive integers.
    """
    unknown = sorted(set(hints) - {*_TILES, "work_div", "named_dims"})
    if unknown or not hints:
        given = ", ".join(unknown) or "nothing"
        raise TypeError(f"spyre_hint takes num_tiles_per_dim, work_div and named_dims, got {given}")
    values = {name: check(hints) for name, check in _CHECKS.items()}
    return torch.fx.traceback.annotate({_SCOPE + str(_number()): values})


def new_scope() -> int:
    """The number of a scope of steps."""
    return _number()


def step_of(scope: int, step: int, count: int) -> AbstractContextManager[Any]:
    """Around what belongs to one step of a loop whose steps are traced one behind the other."""
    values = {"tiles": f"@{step}={count}", "work_div": "", "named_dims": ""}
    return torch.fx.traceback.annotate({_SCOPE + str(scope): values})


def _number() -> int:
    """Of a scope: unique, and greater than those of the scopes around it."""
    return next(_numbers)


# What torch.compiler.assume_constant_result does, which would import all of torch._dynamo.
_number._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _counts(keyword: str, counts: Mapping[str, int], what: str) -> str:
    if not isinstance(counts, Mapping):
        raise TypeError(f"{keyword}={counts!r}: expected {what} by names of dims")
    for name, count in counts.items():
        dims.check_name(name)
        if not isinstance(count, int) or isinstance(count, bool) or not 0 < count < 1 << 31:
            rule = f"{what} are whole numbers from 1 on"
            rule += " and less than 2**31" if isinstance(count, int) and count > 0 else ""
            raise _C.Unsupported(f"{keyword} {name}={count!r}: {rule}")
    return ",".join(f"{name}={count}" for name, count in counts.items())


def _check_tiles(hints: Mapping[str, Any]) -> str:
    given = [keyword for keyword in _TILES if keyword in hints]
    if not given:
        return ""
    if len(given) > 1:
        raise TypeError(f"spyre_hint: {' and '.join(given)} are one keyword")
    counts = hints[given[0]]
    if isinstance(counts, Mapping) and len(counts) > 1:
        text = f"{given[0]}={dict(counts)}: one dim a scope; nest scopes for several"
        raise NotImplementedError(text)
    return _counts(given[0], counts, "counts of tiles")


def _check_work_div(hints: Mapping[str, Any]) -> str:
    return _counts("work_div", hints.get("work_div", {}), "slices")


def _check_named_dims(hints: Mapping[str, Any]) -> str:
    names = hints.get("named_dims", ())
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise TypeError(f"named_dims={names!r}: expected a list of names of dims")
    return ",".join("" if name is None else dims.check_name(name) for name in names)


_CHECKS = {"tiles": _check_tiles, "work_div": _check_work_div, "named_dims": _check_named_dims}


_aten = torch.ops.aten
_OF_SHAPES = {
    *(op.default for op in (_aten.empty_like, _aten.full_like, _aten.zeros_like, _aten.ones_like)),
    *(op.default for op in (_aten.new_empty, _aten.new_full, _aten.new_zeros, _aten.new_ones)),
}


class Scope(NamedTuple):
    """A scope around an FX node, as the compiler takes it."""

    number: int
    tiles: str  # "M=8", or "@2=16" for a step of a loop that the user writes
    work_div: str  # "M=2,K=4"
    named_dims: str  # "M,K"

    @property
    def about_dims(self) -> str:
        """What it asks of named dims."""
        return self.work_div or ("" if self.tiles.startswith("@") else self.tiles)


def scopes_of(node: torch.fx.Node) -> list[Scope]:
    """Outermost first."""
    custom = node.meta.get("custom") or {}
    keys = [key for key in custom if isinstance(key, str) and key.startswith(_SCOPE)]
    return sorted(Scope(int(key.removeprefix(_SCOPE)), **custom[key]) for key in keys)


def about_dims(graph: torch.fx.Graph) -> dict[int, str]:
    """The scopes of a graph that ask something of named dims, and what."""
    scopes = (scope for node in graph.nodes for scope in scopes_of(node))
    return {scope.number: scope.about_dims for scope in scopes if scope.about_dims}


def warn_of_lost_scopes(before: Mapping[int, str], graph: torch.fx.Graph) -> None:
    """Warns of scopes of the user's graph that no operator of the graph to compile is in."""
    for number in sorted(set(before) - set(about_dims(graph))):
        text = f"spyre_hint of {before[number]} (scope {number}) has no effect: "
        warnings.warn(text + "none of its operators is left in the compiled graph", stacklevel=2)


def warn_of_unnamed(inputs: Sequence[str]) -> None:
    """Warns of inputs, as a reader may call them, that operators under hints of names read."""
    if inputs:
        text = "operators under a spyre_hint read inputs whose dims have no names: "
        rule = "; name_tensor_dims gives them"
        warnings.warn(text + ", ".join(dict.fromkeys(inputs)) + rule, stacklevel=2)


def hand_over(graph: _C.Graph, number: int, node: torch.fx.Node, scopes: Sequence[Scope]) -> None:
    """Tells the compiler's node `number` the hints around its FX node."""
    tiles = [f"{scope.number}:{scope.tiles}" for scope in scopes if scope.tiles]
    division = [scope.work_div for scope in scopes if scope.work_div]
    names = [scope.named_dims for scope in scopes if scope.named_dims]
    if tiles:
        graph.set_tiles(number, ",".join(tiles))
    if division:
        graph.set_work_division(number, ",".join(division))
    if names:
        _name_result(graph, number, node, names[-1].split(","))


def _name_result(graph: _C.Graph, number: int, node: torch.fx.Node, names: Sequence[str]) -> None:
    """Of an operator that reads nothing but, as zeros_like does, shapes."""
    if node.all_input_nodes and node.target not in _OF_SHAPES:
        return
    try:
        text = dims.names_of_result([name or None for name in names], node.meta["val"].shape)
    except ValueError as error:
        warnings.warn(f"named_dims of {node.name} are left out: {error}", stacklevel=2)
        return
    graph.name_result(number, text)
