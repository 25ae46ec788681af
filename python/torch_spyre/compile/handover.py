# SPDX-License-Identifier: Apache-2.0
"""From PyTorch's operators and values to the compiler's graph: arguments and result types."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .. import _C, config, environment, setting_rules
from .._pytorch import pytree
from .._pytorch.dispatch import OpOverload, schema_of
from .._pytorch.fx import SYMBOLIC
from ..debug import cost_report, failures, kernel_files
from .registered import fallback_ops
from .segments import card_segments, segment_of

# Dtype, whether on the card, sizes, strides, offset.
ResultType = tuple[torch.dtype, bool, list[int], list[int], int]

# Called with every executable that is compiled or found in the cache.
observers: list[Callable[[_C.Executable], None]] = []


def settings() -> dict[str, str]:
    """torch_spyre.config as the compiler takes it."""
    values = {name: getattr(config, name) for name, *_ in _C.settings()}
    return {name: setting_rules.text_of(value) for name, value in values.items()}


def setting(name: str) -> bool | int | float | str:
    """One of them, as torch_spyre.config has it now."""
    value: bool | int | float | str = getattr(config, name)
    return value


def compile_graph(
    graph: _C.Graph, host_fallback: bool, stages: str | None = None, plan: str | None = None
) -> _C.Executable:
    """Compiles with the settings of torch_spyre.config; the compiler writes its stages into the
    directory `stages` (or SPYRE_DUMP_DIR). `plan` is that of the same graph at larger sizes. Raises
    torch_spyre.Unsupported."""
    directory = stages or environment.directory("SPYRE_DUMP_DIR")
    with failures.reported("compile_backend"):
        executable = _C.compile(graph, settings(), directory, host_fallback, _loop_pass(), plan)
    if report := cost_report.cost_model_pass(executable):
        _print_cost(report, executable)
    for observer in observers:
        observer(executable)
    if kernel_files.wanted():
        kernel_files.write_all(executable)
    return executable


def _loop_pass() -> Callable[[int, object], None] | None:
    """The user's passes over the loop IR. Their module imports all of Inductor, so it is asked only
    when a user has imported it."""
    passes = sys.modules.get("torch_spyre.passes")
    return passes.loop_pass() if passes else None


def _print_cost(report: cost_report.CostReport, executable: _C.Executable) -> None:
    """The report of the cost model, and divisions and times of every kernel, on stderr."""
    print(report.format(), file=sys.stderr)
    for segment in card_segments(executable):
        text = executable.text(segment.index, "cost")
        print(f"segment {segment.index}\n{text}", end="", file=sys.stderr)


class Launch:
    """A card segment of an executable, ready to be called with its inputs."""

    __slots__ = ("executable", "launch", "index", "views")

    def __init__(self, executable: _C.Executable, index: int):
        self.executable = executable
        self.launch = executable.launch
        self.index = index
        self.views = segment_of(executable, index).views

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


class Scalar(NamedTuple):
    """A number that each launch gives, as an argument of a node: the launch's number `number`;
    `like` is one of its class (`_C.scalar_like`), of its type."""

    number: int
    like: int | float


_LIMITS = {torch.float16: 65504.0, torch.int16: 32767.0, torch.uint8: 255.0, torch.int8: 127.0}
_FLOAT32_MAX = torch.finfo(torch.float32).max


def number_limit(dtypes: Iterable[torch.dtype]) -> float:
    """The largest number that a parameter may be beside operands of these dtypes."""
    return min((_LIMITS.get(dtype, _FLOAT32_MAX) for dtype in dtypes), default=_FLOAT32_MAX)


def takes_scalars() -> bool:
    """Whether numbers may be parameters. Programs that are written to files hold theirs."""
    written = environment.directory("SPYRE_DUMP_DIR") or kernel_files.wanted()
    return not observers and not written


def op_name(op: OpOverload) -> str:
    """ "aten.add.Tensor"; a name that no row of the compiler has for what must run on the host."""
    return f"host.{op}" if op in fallback_ops else str(op)


def positional(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments in the order of the schema, defaults filled in."""
    values = list(args)
    for argument in schema_of(op).arguments[len(values) :]:
        if argument.name in kwargs:
            values.append(kwargs[argument.name])
        else:
            values.append(argument.default_value if argument.has_default_value() else None)
    return values


# Operators that take tensors of the host next to the card's: indices, and sources of copies.
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index",
           "_unsafe_index_put", "_index_put_impl"}  # fmt: skip
_COPIES = {"copy", "copy_", "_foreach_copy", "_foreach_copy_"}


def check_devices(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """PyTorch's rule: numbers and indices of the host aside, the tensors of an operator are on one
    device."""
    name = schema_of(op).name.split("::")[1]
    if name in _COPIES:
        return
    devices: dict[torch.device, str] = {}
    for index, argument in enumerate(schema_of(op).arguments):
        value = args[index] if index < len(args) else kwargs.get(argument.name)
        may_be_of_host = name in INDEXED and argument.name == "indices"
        leaves = pytree.tree_leaves(value)
        for place, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor) or leaf.device.type == "cpu" and may_be_of_host:
                continue
            if leaf.dim() > 0 or leaf.device.type == "spyre":
                part = f"[{place}]" if isinstance(value, list | tuple) else ""
                devices.setdefault(leaf.device, argument.name + part)
    if len(devices) > 1:
        places = " and ".join(f"{name} on {device}" for device, name in devices.items())
        found = " and ".join(map(str, list(devices)[:2]))
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{found}! ({op} has {places})"
        )


def encode(value: Any, value_id: Callable[[Any], int | None]) -> Any:
    """One argument as Graph.add_node() takes it; `value_id(x)` is an id, or None for no tensor."""
    if isinstance(value, Scalar):
        return value
    number = value_id(value)
    if number is not None:
        return (number,)
    if isinstance(value, (list, tuple)):
        return [encode(item, value_id) for item in value]
    if isinstance(value, SYMBOLIC):
        raise _C.Unsupported(f"symbolic argument {value}")
    return value


def result_type(tensor: torch.Tensor, on_card: bool) -> ResultType:
    """A result as Graph.add_node() takes it."""
    return (
        tensor.dtype,
        on_card,
        list(tensor.shape),
        list(tensor.stride()),
        int(tensor.storage_offset()),
    )
