# SPDX-License-Identifier: Apache-2.0
"""Names of the dims of tensors.

They belong to what a tensor holds, not to its shape: a flat tensor may have those of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from ..._pytorch.fx import arguments_of

_sizes: dict[str, int] = {}
_ATTRIBUTE = "_spyre_dims"  # of a tensor: "M,K"


def reset() -> None:
    """Forgets every declared dim, and with them the names of all tensors."""
    _sizes.clear()


def check_name(name: object) -> str:
    if not isinstance(name, str) or not name or set(name) & set(",=:* ()\n"):
        raise ValueError(f"{name!r} is no name of a dim")
    return name


def declare_tensor_dim(name: str, size: int) -> None:
    """A name for dims of `size` elements; a name has one size at a time.

    Raises: TypeError for a size that is no integer, ValueError for a negative one and for a name
    that is empty or has separators in it.
    """
    check_name(name)
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeError(f"dim {name}: size {size!r} is no whole number")
    if size < 0:
        raise ValueError(f"dim {name}: size {size} is negative")
    _sizes[name] = size


def name_tensor_dims(tensor: torch.Tensor, names: Sequence[str | None]) -> torch.Tensor:
    """Names the dims of a tensor, outermost first, and returns it; None for a dim without a name.
    A dim that holds several, as a flattened one does, takes as many names as make up its size. A
    dim of size 1, which broadcasting may stretch, takes any. Inside of a compiled function it names
    arguments of the function. The tensor is of any shape, with one name or None for each dim.

    Raises: TypeError for what is no tensor or no list of names, ValueError where names and sizes
    do not go together or a name is not declared.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"name_tensor_dims: expected a tensor, got {type(tensor).__name__}")
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise TypeError(f"name_tensor_dims: expected a list of names, got {names!r}")
    checked = [name if name is None else check_name(name) for name in names]
    text = names_text(checked, tensor.shape, _sizes)
    if torch.compiler.is_compiling():
        torch.ops.spyre.name_dims.default(tensor, text)
    else:
        set_dims(tensor, text)
    return tensor


def set_dims(tensor: torch.Tensor, text: str) -> None:
    setattr(tensor, _ATTRIBUTE, text)


def dims_of(value: object) -> str:
    """The names of a tensor's dims as the compiler takes them."""
    return getattr(value, _ATTRIBUTE, "") if _sizes else ""


def in_use() -> bool:
    return bool(_sizes)


def declared() -> Collection[str]:
    """The names, as they are at any time: empty unless in_use()."""
    return _sizes


def take_names(graph: torch.fx.Graph) -> dict[int, str]:
    """Takes the calls of name_tensor_dims out of a graph of Dynamo: texts by argument."""
    arguments = list(graph.find_nodes(op="placeholder"))
    found = {}
    for node in graph.find_nodes(op="call_function", target=torch.ops.spyre.name_dims.default):
        tensor, text = arguments_of(node)
        if tensor not in arguments:
            rule = "names of computed tensors follow from those of the function's arguments"
            raise ValueError(f"name_tensor_dims({tensor}, {text!r}) in a compiled function: {rule}")
        found[arguments.index(tensor)] = text
        graph.erase_node(node)
    return found


def naming(function: Callable[..., Any], names: Mapping[int, str]) -> Callable[..., Any]:
    """The function, which names those of its arguments before it runs."""
    if not names:
        return function

    def run(*args: Any) -> Any:
        for index, text in names.items():
            set_dims(args[index], text)
        return function(*args)

    return run


# ---- the text of a tensor's names


def names_of_result(names: Sequence[str | None], shape: Sequence[int]) -> str:
    """As names_text; each dim of the result is enough of a declaration of a name that has none."""
    pairs = zip(names, shape, strict=True) if len(names) == len(shape) else ()
    sizes = {name: size for name, size in pairs if name is not None}
    return names_text(names, shape, {**sizes, **_sizes})


def names_text(
    names: Sequence[str | None], shape: Sequence[int], declared: Mapping[str, int]
) -> str:
    """ "M,K" for dims of these sizes, "M:64*K:512" for one that holds both."""
    if len(names) < len(shape):
        raise ValueError(f"{len(names)} names for a tensor of {len(shape)} dims")
    left_names = list(names)
    entries = []
    for at, size in enumerate(shape):
        taken = [left_names.pop(0)]
        left = size // _size(taken[0], size, declared)
        while left > 1 and len(left_names) > len(shape) - at - 1:
            taken.append(left_names.pop(0))
            left //= _size(taken[-1], left, declared)
        if len(taken) == 1:
            _check_size(taken[0], size, declared)
            entries.append((taken[0] or "") if size != 1 else "")
            continue
        parts = [name for name in taken if name is not None]
        if len(parts) < len(taken):
            raise ValueError(f"a dim of size {size} is made up of {taken}: all need a name")
        entries.append("*".join(f"{name}:{declared[name]}" for name in parts))
    if left_names:
        raise ValueError(f"{left_names} are names without a dim")
    return ",".join(entries)


def _size(name: str | None, size: int, declared: Mapping[str, int]) -> int:
    """The declared size, when it is a part of `size`."""
    part = declared.get(name, size) if name is not None else size
    if part > 0 and size % part == 0:
        return part
    _check_size(name, size, declared)
    return size


def _check_size(name: str | None, size: int, declared: Mapping[str, int]) -> None:
    if name is None or declared.get(name) == size:
        return
    if name not in declared:
        rule = f"not declared: declare_tensor_dim({name!r}, {size}) does"
        raise ValueError(f"dim {name} of size {size} is {rule}")
    if size != 1:
        raise ValueError(f"dim {name} of size {size} is declared with size {declared[name]}")
