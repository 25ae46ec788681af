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
from typing import Any

import torch

from .. import _C

_sizes: dict[str, int] = {}
_numbers = itertools.count(1)
_ATTRIBUTE = "_spyre_dims"  # of a tensor: "M,K"
_SCOPE = "_hint_"  # and a number: an entry of an FX node's custom metadata
_TILES = ("num_tiles_per_dim", "tiles", "slices")  # the latter two are torch-spyre's old names


def declare_tensor_dim(name: str, size: int) -> None:
    """A name for dims of that size; a name has one size at a time."""
    if not isinstance(name, str) or not name or set(name) & set(",=:* ()\n"):
        raise ValueError(f"{name!r} is no name of a dim")
    if int(size) < 0:
        raise ValueError(f"dim {name}: size {size} is negative")
    _sizes[name] = int(size)


def name_tensor_dims(tensor: torch.Tensor, names: Sequence[str | None]) -> None:
    """Names the dims of a tensor, outermost first; None for a dim without a name. A dim that holds
    several, as a flattened one does, takes as many names as make up its size."""
    setattr(tensor, _ATTRIBUTE, _names_text(list(names), tensor.shape))


def _names_text(names: list, shape) -> str:
    if len(names) < len(shape):
        raise ValueError(f"{len(names)} names for a tensor of {len(shape)} dims")
    entries = []
    for at, size in enumerate(shape):
        taken = [names.pop(0)]
        left = size // _size(taken[0], size)
        while left > 1 and len(names) > len(shape) - at - 1:
            taken.append(names.pop(0))
            left //= _size(taken[-1], left)
        if len(taken) == 1:
            _check_size(taken[0], size)
            entries.append(taken[0] or "")
            continue
        if any(name is None for name in taken):
            raise ValueError(f"a dim of size {size} is made up of {taken}: all need a name")
        entries.append("*".join(f"{name}:{_sizes[name]}" for name in taken))
    if names:
        raise ValueError(f"{names} are names without a dim")
    return ",".join(entries)


def _size(name: str | None, size: int) -> int:
    """The declared size, when it is a part of `size`."""
    declared = _sizes.get(name, size) if name is not None else size
    if declared > 0 and size % declared == 0:
        return declared
    _check_size(name, size)
    return size


def _check_size(name: str | None, size: int) -> None:
    if name is not None and _sizes.get(name) != size:
        declared = f"declared with size {_sizes[name]}" if name in _sizes else "not declared"
        raise ValueError(f"dim {name} of size {size} is {declared}")


def spyre_hint(**hints: Any):
    """A scope of a compiled function. One or more of

    num_tiles_per_dim={"M": 8}  a loop over 8 tiles of one dim; scopes nest as the loops do
    work_div={"M": 2, "K": 4}   slices of named dims over the cores
    named_dims=["M", "N"]       names of the results of operators without inputs
    """
    values = {name: check(hints) for name, check in _CHECKS.items()}
    unknown = set(hints) - {*_TILES, "work_div", "named_dims"}
    if unknown or not hints:
        raise TypeError(f"spyre_hint takes num_tiles_per_dim, work_div and named_dims: {unknown}")
    return torch.fx.traceback.annotate({_SCOPE + str(_number()): values})


def new_scope() -> int:
    """The number of a scope of steps."""
    return _number()


def step_of(scope: int, step: int, count: int):
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
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            rule = f"{what} are whole numbers from 1 on"
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
    for name in names:
        if name is not None and name not in _sizes:
            raise ValueError(f"named_dims: dim {name} is not declared")
    return ",".join(name or "" for name in names)


_CHECKS = {"tiles": _check_tiles, "work_div": _check_work_div, "named_dims": _check_named_dims}


def in_use() -> bool:
    return bool(_sizes)


def dims_of(value) -> str:
    """The names of a tensor's dims as the compiler takes them."""
    return getattr(value, _ATTRIBUTE, "") if _sizes else ""


def _scopes_of(node: torch.fx.Node) -> list[tuple[int, dict[str, str]]]:
    """Number and texts of the scopes around a node, outermost first."""
    custom = node.meta.get("custom") or {}
    keys = [key for key in custom if isinstance(key, str) and key.startswith(_SCOPE)]
    return sorted((int(key.removeprefix(_SCOPE)), custom[key]) for key in keys)


def _speaks_of_dims(hint: dict[str, str]) -> bool:
    return bool(hint["work_div"]) or (hint["tiles"] != "" and not hint["tiles"].startswith("@"))


def scopes_in(graph: torch.fx.Graph) -> dict[int, str]:
    """The scopes that say something of named dims: their numbers, and what they say."""
    return {
        number: hint["tiles"] or hint["work_div"]
        for node in graph.nodes
        for number, hint in _scopes_of(node)
        if _speaks_of_dims(hint)
    }


def warn_of_lost_scopes(before: Mapping[int, str], graph: torch.fx.Graph) -> None:
    """Warns of scopes of the user's graph that no operator of the graph to compile is in."""
    for number in sorted(set(before) - set(scopes_in(graph))):
        text = f"spyre_hint of {before[number]} (scope {number}) has no effect: "
        warnings.warn(text + "none of its operators is left in the compiled graph", stacklevel=2)


def wants_names(node: torch.fx.Node) -> bool:
    """Whether a hint of named dims is around the node."""
    return any(_speaks_of_dims(hint) for _number, hint in _scopes_of(node))


def warn_of_unnamed(inputs: Sequence[str]) -> None:
    """Warns of inputs, as a reader may call them, that such nodes read."""
    if inputs:
        text = "operators under a spyre_hint read inputs whose dims have no names: "
        rule = "; name_tensor_dims gives them"
        warnings.warn(text + ", ".join(dict.fromkeys(inputs)) + rule, stacklevel=2)


def hand_over(graph, number: int, node: torch.fx.Node) -> None:
    """Tells the compiler's node `number` the hints around its FX node."""
    scopes = _scopes_of(node)
    if not scopes:
        return
    tiles = [f"{scope}:{hint['tiles']}" for scope, hint in scopes if hint["tiles"]]
    division = ",".join(hint["work_div"] for _scope, hint in scopes if hint["work_div"])
    names = [hint["named_dims"] for _scope, hint in scopes if hint["named_dims"]]
    if tiles:
        graph.set_tiles(number, ",".join(tiles))
    if division:
        graph.set_work_division(number, division)
    if names and not node.all_input_nodes:
        _name_result(graph, number, node, names[-1])


def _name_result(graph, number: int, node: torch.fx.Node, names: str) -> None:
    shape = node.meta["val"].shape
    try:
        text = _names_text([name or None for name in names.split(",")], shape)
    except ValueError as error:
        warnings.warn(f"named_dims of {node.name} are left out: {error}", stacklevel=2)
        return
    graph.name_result(number, text)
