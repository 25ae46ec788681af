# SPDX-License-Identifier: Apache-2.0
"""A tensor of the CPU whose values are found when something is done with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch.utils._pytree import tree_map_only

_Tensor = torch.Tensor
_DESCRIBES = {
    _Tensor.shape.__get__, _Tensor.dtype.__get__, _Tensor.device.__get__,  # type: ignore[attr-defined]
    _Tensor.ndim.__get__, _Tensor.requires_grad.__get__, _Tensor.layout.__get__,  # type: ignore[attr-defined]
    _Tensor.size, _Tensor.dim, _Tensor.numel, _Tensor.is_inference, _Tensor.__len__,
}  # fmt: skip


class LateTensor(torch.Tensor):
    """`values()` gives them. They are asked for once, then operators and methods get a tensor that
    has them in the place of this one; `indexed()` may answer an index before."""

    _found: torch.Tensor | None

    @classmethod
    def without_values(cls, shape: Sequence[int], dtype: torch.dtype) -> Self:
        made: Any = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype)
        made._found = None
        return made  # type: ignore[no-any-return]

    def values(self) -> torch.Tensor:
        raise NotImplementedError

    def indexed(self, index: Any) -> torch.Tensor | None:
        """tensor[index] without the values, None to take it from them."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            if func in _DESCRIBES:
                return func(*args, **(kwargs or {}))
            if func is torch.Tensor.__getitem__ and isinstance(args[0], LateTensor):
                tensor, index = args
                found = tensor.indexed(index) if tensor._found is None else None
                if found is not None:
                    return found
        return _with_values(func, args, kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return _with_values(func, args, kwargs)


def _with_values(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> Any:
    args, kwargs = tree_map_only(LateTensor, _values_of, (tuple(args), dict(kwargs or {})))
    return func(*args, **(kwargs or {}))


def _values_of(tensor: LateTensor) -> torch.Tensor:
    if tensor._found is None:
        with torch._C.DisableTorchFunctionSubclass():
            tensor._found = tensor.values()
    return tensor._found
