# SPDX-License-Identifier: Apache-2.0
"""Of Dynamo and AOTAutograd; the functions import them when they are called."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

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


def forgo_records_of_calls() -> None:
    """Calls of the graph that Dynamo is compiling do not record the time of the code around it,
    unless a profiler runs now: the look for a profiler in each call would be part of that time."""
    from torch._dynamo import config, symbolic_convert

    translator = getattr(symbolic_convert.tls, "current_tx", None)
    profiles = torch.autograd.profiler._is_profiler_enabled
    if translator is None or profiles or not config.record_runtime_overhead:
        return
    config.record_runtime_overhead = False
    translator.output.add_cleanup_hook(lambda: setattr(config, "record_runtime_overhead", True))


def adds_nothing(arguments: int, of_user: Sequence[Any], graph: torch.fx.Graph) -> bool:
    """Whether the function that AOTAutograd is making of a graph for inference only calls what is
    being compiled: with the user's arguments as they are, none of which is written, for results
    that are neither arguments nor views, nor does a subclass wrap any. `arguments` are those of the
    compiled graph, `graph` is the user's."""
    from .fx import results_of

    context = torch._guards.TracingContext.try_get()
    meta: Any = context.fw_metadata if context else None
    nodes = [result for result in results_of(graph) if isinstance(result, torch.fx.Node)]
    results = [node.meta.get("example_value") for node in nodes]
    return (
        meta is not None
        and arguments == len(of_user)
        and not any(map(is_traceable_wrapper_subclass, [*of_user, *results]))
        and not meta.num_mutated_inp_runtime_indices
        and not meta.num_mutated_graph_handled_indices
        and not meta.num_outputs_aliased
        and not meta.num_intermediate_bases
        and not meta.dynamic_outputs
        and not meta.tokens
        and not meta.is_rng_op_functionalized
        and not meta.num_graphsafe_rng_states
    )


def untracked(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A function that Dynamo was told not to trace, for a caller that is not traced."""
    from torch._dynamo.eval_frame import innermost_fn

    function: Callable[..., Any] = innermost_fn(compiled)
    return function


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
