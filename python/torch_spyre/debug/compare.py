# SPDX-License-Identifier: Apache-2.0
"""A function on the card beside the same function on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._pytorch import pytree


def compare_with_cpu(
    fn: Callable[..., Any],
    *args: Any,
    atol: float = 0.1,
    rtol: float = 0.1,
    run_eager: bool = True,
    run_compile: bool = True,
) -> None:
    """Runs fn(*args) on the CPU and on the card, eager and by torch.compile, and compares.

    Each run gets copies of the tensors in `args`, which may be of any device and nested in lists,
    tuples and dicts. Results may be nested alike; shapes and dtypes have to agree, values by
    |card - cpu| <= atol + rtol * |cpu|. The arguments are compared as well: what fn writes in place
    counts.

    Raises: AssertionError where a result or an argument differs, named by run and place; fn's own
    errors.
    """
    expected = _run(fn, args, "cpu")
    runs = {"eager": fn} if run_eager else {}
    if run_compile:
        runs["compiled"] = torch.compile(fn)
    for name, run in runs.items():
        found = _run(run, args, "spyre")
        if len(found) != len(expected):
            raise AssertionError(f"{name}: {len(found)} values, the CPU gives {len(expected)}")
        for place, (actual, wanted) in enumerate(zip(found, expected, strict=True)):
            try:
                torch.testing.assert_close(actual, wanted, atol=atol, rtol=rtol, equal_nan=True)
            except AssertionError as error:
                raise AssertionError(f"{name}, value {place}: {error}") from None


def _run(fn: Callable[..., Any], args: tuple[Any, ...], device: str) -> list[Any]:
    """Leaves of the result, then of the arguments, on the CPU."""

    def own(value: Any) -> Any:
        return value.detach().clone().to(device) if isinstance(value, torch.Tensor) else value

    copies = pytree.tree_map(own, args)
    leaves = pytree.tree_leaves((fn(*copies), copies))
    return [leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
