# SPDX-License-Identifier: Apache-2.0
"""Streams of cards, by torch-spyre's module name: what `torch.spyre` has, too."""

from .device.streams import Stream, current_stream, default_stream, stream, synchronize

__all__ = ["Stream", "current_stream", "default_stream", "stream", "synchronize"]
