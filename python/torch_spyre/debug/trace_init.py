# SPDX-License-Identifier: Apache-2.0
"""What of PyTorch the device touches while it registers itself, and what more at the first compiled
call:

    spyre-trace-init            (or: python -m torch_spyre.debug.trace_init)

A line is one place of torch_spyre: what it imports from torch, with the number of modules that were
loaded for it, or what it calls. It is recorded in a process of its own, in the order in which it
happens; docs/backends.md.
"""

from __future__ import annotations

import builtins
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType, ModuleType

_PACKAGE = pathlib.Path(__file__).parent.parent
# Calls that are no more than looking at something.
_UNTOLD = {"__hash__", "__str__", "__iter__", "__len__", "__getattr__", "<lambda>", "<module>"}


class Trace:
    """Records imports and calls from torch_spyre into torch."""

    def __init__(self, torch_directory: pathlib.Path):
        self.roots = {"torch": str(torch_directory), "torch_spyre": str(_PACKAGE)}
        self.seen: set[tuple[str, str]] = set()
        self.original = builtins.__import__

    def start(self) -> None:
        builtins.__import__ = self._import
        sys.setprofile(self._profile)

    def stop(self) -> None:
        sys.setprofile(None)
        builtins.__import__ = self.original

    def _place(self, frame: FrameType | None, package: str) -> str | None:
        """ "torch_spyre/eager.py": a file of the package as people write it."""
        file = frame.f_code.co_filename if frame else ""
        root = self.roots[package]
        return f"{package}{file.removeprefix(root)}" if file.startswith(root + os.sep) else None

    def _tell(self, place: str, line: int, what: str, note: str = "") -> None:
        """Each file's imports and calls once."""
        if (place, what) not in self.seen:
            self.seen.add((place, what))
            print(f"{place}:{line}".ljust(42), what + note)

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        frame = sys._getframe(1)
        before = len(sys.modules)
        module = self.original(name, globals, locals, fromlist, level)
        full = module.__name__ if fromlist or "." not in name else name
        place = self._place(frame, "torch_spyre") if full.startswith("torch.") else None
        if place:
            loaded = len(sys.modules) - before
            note = f" ({loaded} modules loaded)" if loaded else ""
            self._tell(place, frame.f_lineno, f"import {full}", note)
        return module

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or frame.f_code.co_name in _UNTOLD or frame.f_back is None:
            return
        place = self._place(frame.f_back, "torch_spyre")
        target = self._place(frame, "torch") if place else None
        if place and target:
            self._tell(place, frame.f_back.f_lineno, f"-> {target} {frame.f_code.co_qualname}()")


def _record() -> None:
    """In a process in which the device is not registered yet."""
    import torch

    trace = Trace(pathlib.Path(torch.__path__[0]))
    print("# import torch_spyre: the device registers itself")
    trace.start()
    import torch_spyre  # noqa: F401

    trace.stop()
    print("# the first call of a compiled function")
    x = torch.ones(2, dtype=torch.float16).to("spyre")
    trace.start()
    torch.compile(lambda x: x + 1)(x)
    trace.stop()


def main() -> int:
    # Without the folder of this file in the path, and without PyTorch's own loading of backends.
    command = [sys.executable, "-P", __file__]
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    if "torch_spyre" in sys.modules:
        sys.exit(main())
    _record()
