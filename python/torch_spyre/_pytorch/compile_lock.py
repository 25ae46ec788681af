# SPDX-License-Identifier: Apache-2.0
"""PyTorch's compiler is for one thread at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """No other thread traces or compiles meanwhile: FX's tracer patches `torch.nn.Module` of all
    threads, and takes its patch back right only if no other tracer has come in between. That
    something is compiled is known to PyTorch, which would else refuse what other threads call of
    torch.compile(): to it a graph is traced, and theirs would be part of it. Dynamo comes before
    Inductor: each imports the other, and threads that begin at either end get halves of both."""
    from torch._dynamo.convert_frame import compile_lock

    with compile_lock, torch.compiler._compile_session_context():
        yield
