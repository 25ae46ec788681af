# SPDX-License-Identifier: Apache-2.0
"""PyTorch's modules of settings: attributes that `patch` changes for a while.

PyTorch keeps what is set by context, of which a new thread has none: threads that never set
anything, as those of autograd, would work with what held at the start. share() gives them what was
set last.
"""

from collections.abc import Callable, Collection
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from torch.utils._config_module import Config, install_config_module

if TYPE_CHECKING:  # the functions that installing gives such a module
    from torch.utils._config_typing import get_config_copy as get_config_copy
    from torch.utils._config_typing import patch as patch

__all__ = ["Config", "install_config_module", "share", "watch"]

_watchers: dict[str, list[Callable[[], None]]] = {}  # by module: called when something is set


def share(module: ModuleType, check: Callable[[str, object], None]) -> None:
    """What is set in an installed module holds in threads that set nothing. `check` gets the name
    and the value of what is to be set, and raises what is wrong with it."""
    plain = type(module)
    watchers = _watchers.setdefault(module.__name__, [])

    class Shared(plain):  # type: ignore[misc, valid-type]
        def __setattr__(self, name: str, value: object) -> None:
            entry = self._config.get(name)
            if entry is not None:
                check(name, value)
            super().__setattr__(name, value)
            if entry is None or entry.alias is not None:
                return
            entry.default = value
            for watcher in watchers:
                watcher()

        def patch(self, first: object = None, value: object = None, **changes: object) -> Any:
            """As PyTorch's, but nothing is set where one of several values is wrong."""
            named = {first: value} if isinstance(first, str) else first or changes
            for name, changed in cast(dict[str, object], named).items():
                if name in self._config:
                    check(name, changed)
            return super().patch(first, value, **changes)

    ModuleType.__setattr__(module, "__class__", Shared)  # not one of the settings


def watch(
    module: ModuleType, names: Collection[str], on_change: Callable[[], None]
) -> Callable[[], int]:
    """Calls `on_change` when the values of a shared module's settings `names` change. Returns a
    function that gives the same number for the same values of them."""

    def values() -> tuple[object, ...]:
        return tuple(repr(getattr(module, name)) for name in names)

    known = {values(): 0}
    own: ContextVar[int] = ContextVar(f"{module.__name__} number")
    last = [0]

    def number() -> int:
        return own.get(last[0])

    def look() -> None:
        now = known.setdefault(values(), len(known))
        if now != number():
            on_change()
        own.set(now)
        last[0] = now

    _watchers[module.__name__].append(look)
    return number
