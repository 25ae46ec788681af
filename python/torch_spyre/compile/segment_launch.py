# SPDX-License-Identifier: Apache-2.0
"""Launches of a card segment of a compiled graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import _C
from .segments import View, segment_of


class Launch:
    """A card segment of an executable, ready to be called with its inputs."""

    __slots__ = ("executable", "launch", "index", "views")

    def __init__(self, executable: _C.Executable, index: int):
        self.executable = executable
        self.launch = executable.launch
        self.index = index
        self.views: Sequence[View] = segment_of(executable, index).views

    def __call__(
        self, inputs: Sequence[torch.Tensor], card: int, scalars: tuple[float, ...] = ()
    ) -> list[torch.Tensor]:
        results = self.launch(self.index, inputs, card, scalars)
        if self.views:
            self._add_views(inputs, results)
        return results

    def interpret(
        self, inputs: Sequence[torch.Tensor], card: int, scalars: tuple[float, ...] = ()
    ) -> list[torch.Tensor]:
        """The same by the definition of bundles, which is slow."""
        results = self.executable.interpret(self.index, inputs, card, scalars)
        self._add_views(inputs, results)
        return results

    def _add_views(self, inputs: Sequence[torch.Tensor], results: list[torch.Tensor]) -> None:
        for position, of_input, source, size, stride, offset in self.views:
            base = inputs[source] if of_input else results[source]
            results.insert(position, base.as_strided(size, stride, offset))
