# SPDX-License-Identifier: Apache-2.0
"""KTIR kernels (torch-spyre RFC 0682) on the emulated card, in a line (docs/ktir.md).

kernel = torch_spyre.ktir.load("softmax.mlir")
kernel.run(input_ptr=x, output_ptr=y, n_rows=4096)
print(kernel.report(input_ptr=x, output_ptr=y, n_rows=4096).why)
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from torch_spyre import _C, ktir_export
from torch_spyre.compile.planned.op_spec import KernelSpec

__all__ = [
    "Function",
    "Kernel",
    "KernelCounters",
    "Parameter",
    "Report",
    "from_specs",
    "load",
    "loads",
]

Value = torch.Tensor | int | float

_NUMBERS = (0, 0, 0, 0.0)
_MOST_PROGRAMS = 16


@dataclass(frozen=True)
class Parameter:
    """What a function is called with: a number, memory that an argument is the address of, or the
    memory of a view at a constant address. Unknown sizes of `shape` are -1; it is that of the first
    view of the memory. A run changes memory that the function stores into, which is written, alone.
    """

    name: str
    is_memory: bool
    is_view: bool
    is_written: bool
    dtype: torch.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Function:
    """A function of a module; an empty grid is one compute tile."""

    name: str
    grid: tuple[int, ...]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class KernelCounters:
    """What a kernel of the program uses in one run, by the timing model: bytes, microseconds."""

    name: str
    location: str
    cores: int
    us: float
    bound: str
    memory_read_bytes: int
    memory_written_bytes: int
    ring_bytes: int
    mac_count: int
    vector_element_count: int


@dataclass(frozen=True)
class Report:
    """A function as a program of the card: kernels, their sum, where the time goes, its text."""

    kernels: tuple[KernelCounters, ...]
    total: KernelCounters
    why: str
    listing: str


def _dense(value: torch.Tensor, parameter: Parameter) -> torch.Tensor:
    """The tensor on the host, contiguous and of the parameter's dtype.

    Raises:
        TypeError: the tensor has another dtype.
    """
    if value.dtype != parameter.dtype:
        raise TypeError(f"{parameter.name}: {value.dtype}, the kernel takes {parameter.dtype}")
    return value.detach().to("cpu").contiguous()


class Kernel:
    """A module that is parsed and verified. `load` and `loads` make it."""

    def __init__(self, source: str, file: str) -> None:
        self._kernel = _C.ktir_parse(source, file)
        self._programs: dict[tuple[object, ...], _C.KtirProgram] = {}
        self.functions: tuple[Function, ...] = tuple(
            Function(
                name,
                tuple(grid),
                tuple(
                    Parameter(
                        p,
                        bool(memory),
                        bool(view),
                        bool(written),
                        getattr(torch, dtype),
                        tuple(shape),
                    )
                    for p, memory, view, written, dtype, shape in parameters
                ),
            )
            for name, grid, parameters in self._kernel.functions()
        )

    def __str__(self) -> str:
        """The module as text, which parses to the same."""
        return self._kernel.text()

    def _function(self, name: str | None) -> int:
        for number, function in enumerate(self.functions):
            if function.name == name or (name is None and len(self.functions) == 1):
                return number
        raise ValueError(f"the module has no single function {name or ''}".rstrip())

    def _values(
        self, function: Function, given: Mapping[str, Value]
    ) -> tuple[list[tuple[int, int, int, float]], dict[str, torch.Tensor]]:
        """The call's values, and the host tensors behind them by name."""
        values, tensors = [], {}
        unknown = set(given) - {p.name for p in function.parameters}
        if unknown:
            raise TypeError(f"@{function.name} has no parameter {', '.join(sorted(unknown))}")
        for p in function.parameters:
            value = given.get(p.name)
            if value is None:
                if not p.is_view:
                    raise TypeError(f"@{function.name} wants {p.name}")
                values.append(_NUMBERS)
            elif p.is_memory:
                if not isinstance(value, torch.Tensor):
                    raise TypeError(f"{p.name}: a tensor is wanted")
                tensor = tensors[p.name] = _dense(value, p)
                values.append((tensor.data_ptr(), tensor.numel() * tensor.element_size(), 0, 0.0))
            elif isinstance(value, torch.Tensor):
                raise TypeError(f"{p.name}: a number is wanted")
            else:
                real = p.dtype.is_floating_point
                values.append((0, 0, 0 if real else int(value), float(value) if real else 0.0))
        return values, tensors

    def _lower(
        self, number: int, grid: tuple[int, ...], values: list[tuple[int, int, int, float]]
    ) -> _C.KtirProgram:
        """The program of a call, which sizes and numbers decide, wherever the arrays lie. The
        latest are kept."""
        key = (number, tuple(grid), *(value[1:] for value in values))
        program = self._programs.pop(key, None) or self._kernel.lower(number, grid, 0, values)
        self._programs[key] = program
        if len(self._programs) > _MOST_PROGRAMS:
            del self._programs[next(iter(self._programs))]
        return program

    def run(
        self,
        *,
        function: str | None = None,
        grid: tuple[int, ...] = (),
        interpret: bool = False,
        steps: int = 0,
        **arguments: Value,
    ) -> None:
        """Runs a function on the emulated card; tensors hold what the kernel has stored afterwards.

        Args:
            function: its name, when the module has several.
            grid: compute tiles, instead of what the function states.
            interpret: by definition, in the interpreter, which takes every operation and finds
                races, foreign LX, and loops that do not end.
            steps: operations after which a compute tile is taken not to end (0: 10^9).
            arguments: by name: tensors of any device for memory, numbers for the others.

        Raises:
            RuntimeError: the kernel breaks a rule, or the card has no instruction for an operation:
                file, line, column, operation, rule.
            TypeError: an argument is missing, unknown, or of another type.
        """
        number = self._function(function)
        values, tensors = self._values(self.functions[number], arguments)
        if interpret:
            self._kernel.interpret(number, grid, steps, values)
        else:
            self._lower(number, grid, values).run(values)
        written = {p.name for p in self.functions[number].parameters if p.is_written}
        for name, tensor in tensors.items():
            target = arguments[name]
            assert isinstance(target, torch.Tensor)
            if name not in written:
                continue
            if target.data_ptr() != tensor.data_ptr() or target.device != tensor.device:
                target.detach().copy_(tensor)

    def report(
        self, *, function: str | None = None, grid: tuple[int, ...] = (), **arguments: Value
    ) -> Report:
        """What a run would use and how long the card would take; nothing is executed.

        Raises:
            RuntimeError: as run() does.
        """
        number = self._function(function)
        values, _ = self._values(self.functions[number], arguments)
        program = self._lower(number, grid, values)
        rows = [KernelCounters(*row) for row in program.counters()]
        return Report(tuple(rows[:-1]), rows[-1], program.why(), program.listing())


def loads(source: str, file: str = "kernel.mlir") -> Kernel:
    """The kernel of a text; `file` names it in errors.

    Raises:
        RuntimeError: the text is no valid module: file, line, column, rule.
    """
    return Kernel(source, file)


def load(path: str | os.PathLike[str]) -> Kernel:
    """The kernel of a file. Raises as loads() does, and OSError."""
    with open(path, encoding="utf-8") as file:
        return loads(file.read(), os.fspath(path))


def from_specs(specs: KernelSpec, name: str = "kernel") -> str:
    """OpSpecs (docs/op-spec.md) as the text of a module with the function `name`: pointwise ops,
    reductions and products of SEN169_FP16, divided over compute tiles as over cores. Its
    parameters a0, a1, .. are the kernel's arguments by arg_index, each an array of its device
    dims. The kernel of the specs and the module give the same bytes.

    Raises:
        Unsupported: an op or an access that has no form here: op, rule.
    """
    return ktir_export.export(specs, name)
