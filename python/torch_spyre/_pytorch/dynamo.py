# SPDX-License-Identifier: Apache-2.0
"""Of Dynamo and AOTAutograd; the functions import them when they are called."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])

AOT_LOG = "torch._functorch.aot_autograd"  # the logger that PyTorch opens a file for


def aot_autograd(**compilers: Any) -> Callable[..., Any]:
    """PyTorch's backend that traces and differentiates a graph and calls `compilers`."""
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(**compilers)


def untraced(function: Function) -> Function:
    """Keeps Dynamo from tracing a function, and what it calls, that runs beside traced code."""
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    return function


def forget_unused_stream() -> None:
    """Where Dynamo is compiling a graph whose function does not look at streams, calls of it no
    longer do either: on a host with an accelerator each fetches the current stream, for whatever
    might refer to it, and that takes longer than a brief kernel."""
    from torch._dynamo import graph_bytecode_inputs, symbolic_convert

    translator = getattr(symbolic_convert.tls, "current_tx", None)
    objects = graph_bytecode_inputs.index_to_bytecode_constructor
    if translator is None or list(objects) != [graph_bytecode_inputs.CURRENT_STREAM_INDEX]:
        return
    streams = translator.symbolic_stream_state.cur_stream_stack
    if len(streams) == 1 and not streams[0].is_realized():
        objects.clear()


def graph_breaks() -> int:
    """Graph breaks of the process since the last torch.compiler.reset()."""
    return len(torch._dynamo.utils.graph_break_reasons)


def limit_all_recompilations(most: int) -> None:
    """How often a function is compiled in all, before its calls are no longer."""
    torch._dynamo.config.accumulated_recompile_limit = most


def debug_directory() -> str:
    """Where TORCH_COMPILE_DEBUG=1 writes."""
    from torch._dynamo.utils import get_debug_dir

    return get_debug_dir()


def graph_name() -> str:
    """Of the graph that AOTAutograd is compiling: "model__0_inference_0"."""
    from torch._functorch._aot_autograd.logging_utils import get_aot_graph_name

    return get_aot_graph_name()


def aot_log() -> logging.Logger:
    return logging.getLogger(AOT_LOG)


def fake_of(placeholder: torch.fx.Node) -> Any:
    """What Dynamo traced an input of a graph with: a tensor without values, a symbolic size; None
    of a graph that Dynamo did not make."""
    return placeholder.meta.get("example_value")


def is_static_input(placeholder: torch.fx.Node) -> bool:
    """Whether an input of Dynamo's graph is a parameter or buffer of a module."""
    described = placeholder.meta.get("tensor_dict") or {}
    return "_dynamo_static_input_type" in described
