# SPDX-License-Identifier: Apache-2.0
"""OpSpecs as a KTIR kernel (torch-spyre RFC 0682): torch_spyre.ktir.from_specs().

A compute tile is a core, with the slices that the specs give it. An argument of the kernel is a
view of its device dims, stick included, so that both ways read and write the same bytes. What a
core keeps in LX or in the pool between its ops is a value of the function. Inside of an op a value
has a dim for each loop, in the loops' order but that of the stick last: the two device dims of a
loop along the stick become one, an operand without a loop is broadcast along it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sympy

from ._C import DataFormats, Unsupported
from .compile.planned.op_spec import KernelSpec, OpSpec, TensorArg

_ELEMENTS = {DataFormats.SEN169_FP16: "f16", DataFormats.IEEE_FP32: "f32"}
_UNARY = {
    "exp": "math.exp", "sqrt": "math.sqrt", "rsqrt": "math.rsqrt", "log": "math.log",
    "tanh": "math.tanh", "abs": "math.absf", "neg": "arith.negf", "floor": "math.floor",
}  # fmt: skip
_BINARY = {
    "add": "arith.addf", "sub": "arith.subf", "mul": "arith.mulf", "realdiv": "arith.divf",
    "maximum": "arith.maximumf", "minimum": "arith.minimumf",
}  # fmt: skip
_REDUCTIONS = {
    "sum": ("arith.addf", {"f16": "0.0", "f32": "0.0"}),
    "max": ("arith.maximumf", {"f16": "0xFC00", "f32": "0xFF800000"}),
    "min": ("arith.minimumf", {"f16": "0x7C00", "f32": "0x7F800000"}),
}
_COPIES = ("identity", "ReStickifyOpHBM")


@dataclass(frozen=True)
class _Coordinate:
    """Of a device dim: the loop that walks it, and how: whole, by sticks, or within a stick."""

    symbol: sympy.Symbol | None
    part: str  # "all", "stick", "lane", "none"


@dataclass(frozen=True)
class _Value:
    """A value of the function: for each of its dims the device dim of the buffer that the loop
    walks (by sticks where it is the stick's), and the core's slice of it."""

    name: str
    sizes: tuple[int, ...]
    device_dims: tuple[int, ...]
    slices: tuple[tuple[int, int], ...]  # (number of slices, cores from one to the next)


def _coordinate(expression: sympy.Expr) -> _Coordinate:
    if expression == 0:
        return _Coordinate(None, "none")
    if isinstance(expression, sympy.Symbol):
        return _Coordinate(expression, "all")
    if isinstance(expression, sympy.floor):
        symbols = expression.free_symbols
        if len(symbols) == 1 and expression.args[0] * 64 == (symbol := next(iter(symbols))):
            return _Coordinate(symbol, "stick")
    if isinstance(expression, sympy.Mod):
        base, length = expression.args
        if isinstance(base, sympy.Symbol) and length == 64:
            return _Coordinate(base, "lane")
    raise Unsupported(
        f"KTIR: the coordinate {expression} is not one loop, whole or in sticks of 64"
    )


def _shape(sizes: Iterable[int], element: str) -> str:
    return "".join(f"{size}x" for size in sizes) + element


class _Function:
    """The text of a function, and the values that it has."""

    def __init__(self, specs: Sequence[OpSpec]):
        self.lines: list[str] = []
        self.views: dict[int, TensorArg] = {}
        self.values: dict[str, _Value] = {}  # by the buffer's name
        self.grid = 1
        self.count = 0
        for number, spec in enumerate(specs):
            try:
                _Op(self, spec, first=number == 0).emit()
            except Unsupported as error:
                raise Unsupported(f"op {number} {spec.op}: {error}") from None

    def new(self, text: str) -> str:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {text}")
        return name

    def index(self, number: int) -> str:
        return self.new(f"arith.constant {number} : index")

    def text(self, name: str) -> str:
        parameters = ", ".join(f"%a{n}: index" for n in sorted(self.views))
        head = f"func.func @{name}({parameters}) attributes {{grid = [{self.grid}]}} {{"
        views = [_view(number, self.views[number]) for number in sorted(self.views)]
        body = ["%pid = ktdp.get_compute_tile_id : index", *views, *self.lines, "return"]
        return "\n".join(
            ["module {", f"  {head}", *(f"    {line}" for line in body), "  }", "}", ""]
        )


def _view(number: int, arg: TensorArg) -> str:
    strides: list[int] = []
    step = 1
    for size in reversed(arg.device_size):
        strides.insert(0, step)
        step *= size
    sizes = ", ".join(map(str, arg.device_size))
    return (
        f"%m{number} = ktdp.construct_memory_view %a{number}, sizes: [{sizes}], "
        f"strides: [{', '.join(map(str, strides))}] {{memory_space = #ktdp.memory_space<global>}} "
        f": memref<{_shape(arg.device_size, _ELEMENTS[arg.device_dtype])}>"
    )


class _Op:
    def __init__(self, function: _Function, spec: OpSpec, first: bool):
        self.f = function
        self.spec = spec
        self.element = _ELEMENTS.get(spec.args[-1].device_dtype, "")
        if {_ELEMENTS.get(arg.device_dtype) for arg in spec.args} != {self.element}:
            raise Unsupported("KTIR: operands of one format, SEN169_FP16 or IEEE_FP32, are wanted")
        if self.element != "f16":
            raise Unsupported("KTIR: sticks of 64 elements are wanted, of SEN169_FP16")
        self.coordinates = [[_coordinate(c) for c in arg.device_coordinates] for arg in spec.args]
        self.slices: dict[sympy.Symbol, tuple[int, int]] = {}
        cores = 1
        for symbol, (_extent, count) in reversed(list(spec.iteration_space.items())):
            self.slices[symbol] = (count, cores)
            cores *= count
        if not first and cores != function.grid:
            raise Unsupported(f"KTIR: it is on {cores} cores, ops before it on {function.grid}")
        function.grid = cores
        self.sizes = {symbol: self._size(symbol) for symbol in spec.iteration_space}
        self.order = sorted(spec.iteration_space, key=self._is_result_stick)

    def _is_result_stick(self, symbol: sympy.Symbol) -> bool:
        """Of the first operand, for reductions: its stick is the last dim."""
        return _Coordinate(symbol, "lane") in self.coordinates[0]

    def _size(self, symbol: sympy.Symbol) -> int:
        extent, count = self.spec.iteration_space[symbol]
        local, rest = divmod(int(extent), count)
        uses = {c.part for coordinates in self.coordinates for c in coordinates
                if c.symbol == symbol}  # fmt: skip
        reduced = symbol not in {c.symbol for c in self.coordinates[-1]}
        if "stick" not in uses:
            return local
        if local % 64 and (rest or count > 1 or "all" in uses or reduced):
            raise Unsupported(f"KTIR: {symbol} of {extent} in {count} slices is not whole sticks")
        return -(-local // 64) * 64

    def emit(self) -> None:
        spec, result = self.spec, self.spec.args[-1]
        inputs = [self.operand(number) for number in range(len(spec.args) - 1)]
        if spec.op in _REDUCTIONS:
            made = self.reduce(*inputs)
        elif spec.op == "batchmatmul":
            made = self.product(*inputs)
        else:
            made = self.pointwise(inputs)
        if result.arg_index < 0:
            self.f.values[result.name or ""] = made
        else:
            self.store(result, made)

    # ---- operands

    def symbols_of(self, number: int) -> list[sympy.Symbol]:
        """The loops that walk an operand, in the order of the op."""
        walked = {c.symbol for c in self.coordinates[number]}
        return [symbol for symbol in self.order if symbol in walked]

    def device_dim(self, number: int, symbol: sympy.Symbol) -> int:
        walks = self.coordinates[number]
        return next(d for d, c in enumerate(walks) if c.symbol == symbol and c.part != "lane")

    def operand(self, number: int) -> _Value:
        """The value of an operand, with dims in the order of the op."""
        arg = self.spec.args[number]
        symbols = self.symbols_of(number)
        wanted = tuple(self.device_dim(number, symbol) for symbol in symbols)
        if arg.arg_index >= 0:
            return _Value(self.load(number), tuple(self.sizes[s] for s in symbols), wanted,
                          tuple(self.slices[s] for s in symbols))  # fmt: skip
        value = self.f.values.get(arg.name or "")
        if value is None:
            raise Unsupported(f"KTIR: nothing has written {arg.name}")
        held = dict(
            zip(value.device_dims, zip(value.sizes, value.slices, strict=True), strict=True)
        )
        mine = {d: (self.sizes[s], self.slices[s]) for d, s in zip(wanted, symbols, strict=True)}
        if held != mine:
            raise Unsupported(f"KTIR: {arg.name} passes from core to core")
        order = [value.device_dims.index(d) for d in wanted]
        name = self.transpose(value.name, value.sizes, order)
        return _Value(name, tuple(value.sizes[d] for d in order), wanted,
                      tuple(value.slices[d] for d in order))  # fmt: skip

    def place(self, coordinate: _Coordinate) -> tuple[str, int]:
        """The first index of a device dim that the core has, and how many."""
        symbol = coordinate.symbol
        if symbol is None:
            return self.f.index(0), 1
        if coordinate.part == "lane":
            return self.f.index(0), 64
        size = self.sizes[symbol] // (64 if coordinate.part == "stick" else 1)
        count, cores = self.slices[symbol]
        if count == 1:
            return self.f.index(0), size
        at = self.f.new(f"arith.divsi %pid, {self.f.index(cores)} : index")
        at = self.f.new(f"arith.remsi {at}, {self.f.index(count)} : index")
        return self.f.new(f"arith.muli {at}, {self.f.index(size)} : index"), size

    def tile(self, number: int) -> tuple[str, list[int]]:
        arg = self.spec.args[number]
        known = self.f.views.setdefault(arg.arg_index, arg)
        if known.device_size != arg.device_size:
            raise Unsupported(f"KTIR: argument {arg.arg_index} in two layouts")
        places = [self.place(coordinate) for coordinate in self.coordinates[number]]
        sizes = [size for _at, size in places]
        at = ", ".join(first for first, _size in places)
        memory = f"memref<{_shape(arg.device_size, self.element)}>"
        name = self.f.new(
            f"ktdp.construct_access_tile %m{arg.arg_index}[{at}] : {memory} -> "
            f"!ktdp.access_tile<{_shape(sizes, 'index')}>"
        )
        return name, sizes

    def device_order(self, number: int, symbols: Sequence[sympy.Symbol]) -> list[int]:
        """Device dims in the order of the loops, the stick's lanes behind its sticks, then dims
        that no loop walks."""
        coordinates = self.coordinates[number]
        order: list[int] = []
        for symbol in symbols:
            order += sorted(
                (d for d, c in enumerate(coordinates) if c.symbol == symbol),
                key=lambda d: coordinates[d].part == "lane",
            )
        return order + [d for d, c in enumerate(coordinates) if c.symbol is None]

    def load(self, number: int) -> str:
        tile, sizes = self.tile(number)
        shape = _shape(sizes, self.element)
        name = self.f.new(
            f"ktdp.load {tile} : !ktdp.access_tile<{_shape(sizes, 'index')}> -> tensor<{shape}>"
        )
        symbols = self.symbols_of(number)
        order = self.device_order(number, symbols)
        name = self.transpose(name, sizes, order)
        device = [sizes[d] for d in order]
        return self.reshape("collapse", name, device, self.groups(number, symbols),
                            [self.sizes[s] for s in symbols])  # fmt: skip

    def groups(self, number: int, symbols: Sequence[sympy.Symbol]) -> list[list[int]]:
        """Which dims in device_order() make one dim of the op; unused ones go with the last."""
        out: list[list[int]] = []
        at = 0
        for symbol in symbols:
            count = sum(c.symbol == symbol for c in self.coordinates[number])
            out.append(list(range(at, at + count)))
            at += count
        unused = list(range(at, len(self.coordinates[number])))
        if out:
            out[-1] += unused
        return out

    def store(self, result: TensorArg, made: _Value) -> None:
        number = len(self.spec.args) - 1
        symbols = self.symbols_of(number)
        tile, sizes = self.tile(number)
        order = self.device_order(number, symbols)
        mine = tuple(self.device_dim(number, symbol) for symbol in symbols)
        name = self.transpose(made.name, made.sizes, [made.device_dims.index(d) for d in mine])
        device = [sizes[d] for d in order]
        name = self.reshape("expand", name, [self.sizes[s] for s in symbols],
                            self.groups(number, symbols), device)  # fmt: skip
        name = self.transpose(name, device, [order.index(d) for d in range(len(order))])
        shape = _shape(sizes, self.element)
        indices = _shape(sizes, "index")
        self.f.lines.append(
            f"ktdp.store {name}, {tile} : tensor<{shape}>, !ktdp.access_tile<{indices}>"
        )

    # ---- forms

    def transpose(self, name: str, sizes: Sequence[int], order: Sequence[int]) -> str:
        if list(order) == sorted(order):
            return name
        before, after = _shape(sizes, self.element), _shape((sizes[d] for d in order), self.element)
        empty = self.f.new(f"tensor.empty() : tensor<{after}>")
        return self.f.new(
            f"linalg.transpose ins({name} : tensor<{before}>) outs({empty} : tensor<{after}>) "
            f"permutation = [{', '.join(map(str, order))}]"
        )

    def reshape(
        self, verb: str, name: str, before: Sequence[int], groups: list[list[int]],
        after: Sequence[int],
    ) -> str:  # fmt: skip
        if list(before) == list(after):
            return name
        listed = ", ".join("[" + ", ".join(map(str, group)) + "]" for group in groups)
        form = f" output_shape [{', '.join(map(str, after))}]" if verb == "expand" else ""
        return self.f.new(
            f"tensor.{verb}_shape {name} [{listed}]{form} : tensor<{_shape(before, self.element)}> "
            f"into tensor<{_shape(after, self.element)}>"
        )

    # ---- computing

    def result(self, name: str, symbols: Sequence[sympy.Symbol]) -> _Value:
        number = len(self.spec.args) - 1
        return _Value(
            name,
            tuple(self.sizes[s] for s in symbols),
            tuple(self.device_dim(number, s) for s in symbols),
            tuple(self.slices[s] for s in symbols),
        )

    def pointwise(self, inputs: Sequence[_Value]) -> _Value:
        symbols = self.symbols_of(len(self.spec.args) - 1)
        names = [self.broadcast(n, value, symbols) for n, value in enumerate(inputs)]
        shape = _shape((self.sizes[s] for s in symbols), self.element)
        op = self.spec.op
        if op in _COPIES:
            return self.result(names[0], symbols)
        if op in _UNARY:
            name = self.f.new(f"{_UNARY[op]} {names[0]} : tensor<{shape}>")
        elif op in _BINARY and len(names) == 2:
            name = self.f.new(f"{_BINARY[op]} {names[0]}, {names[1]} : tensor<{shape}>")
        else:
            raise Unsupported("KTIR: there is no operation for it")
        return self.result(name, symbols)

    def broadcast(self, number: int, value: _Value, symbols: Sequence[sympy.Symbol]) -> str:
        has = self.symbols_of(number)
        lacks = [at for at, symbol in enumerate(symbols) if symbol not in has]
        if not lacks:
            return value.name
        before = _shape(value.sizes, self.element)
        after = _shape((self.sizes[s] for s in symbols), self.element)
        empty = self.f.new(f"tensor.empty() : tensor<{after}>")
        return self.f.new(
            f"linalg.broadcast ins({value.name} : tensor<{before}>) "
            f"outs({empty} : tensor<{after}>) dimensions = [{', '.join(map(str, lacks))}]"
        )

    def constant(self, value: str, sizes: Iterable[int]) -> str:
        return self.f.new(f"arith.constant dense<{value}> : tensor<{_shape(sizes, self.element)}>")

    def reduce(self, value: _Value) -> _Value:
        symbols, kept = self.symbols_of(0), self.symbols_of(len(self.spec.args) - 1)
        reduced = [symbol for symbol in symbols if symbol not in kept]
        if len(reduced) != 1 or self.slices[reduced[0]][0] != 1 or not kept:
            raise Unsupported("KTIR: one loop that is not divided is to be reduced, others stay")
        combine, start = _REDUCTIONS[self.spec.op]
        left = [symbol for symbol in symbols if symbol in kept]
        sizes = [self.sizes[symbol] for symbol in left]
        outs = self.constant(start[self.element], sizes)
        name = self.f.new(
            f"linalg.reduce {{ {combine} }} ins({value.name} : "
            f"tensor<{_shape(value.sizes, self.element)}>) outs({outs} : "
            f"tensor<{_shape(sizes, self.element)}>) dimensions = [{symbols.index(reduced[0])}]"
        )
        return self.result(name, left)

    def product(self, a: _Value, b: _Value) -> _Value:
        of_a, of_b = self.symbols_of(0), self.symbols_of(1)
        out = self.symbols_of(2)
        batch = [s for s in out if s in of_a and s in of_b]
        rows = [s for s in out if s in of_a and s not in of_b]
        columns = [s for s in out if s in of_b and s not in of_a]
        inner = [s for s in of_a if s in of_b and s not in out]
        single = len(rows) == len(columns) == len(inner) == 1 and len(batch) <= 1
        if not single or self.slices[inner[0]][0] != 1:
            raise Unsupported("KTIR: a product of matrices, in one batch dim at most, is wanted, "
                              "whose inner loop is not divided")  # fmt: skip
        left = self.transpose(a.name, a.sizes, [of_a.index(s) for s in batch + rows + inner])
        right = self.transpose(b.name, b.sizes, [of_b.index(s) for s in batch + inner + columns])
        shapes = [_shape((self.sizes[s] for s in batch + both), self.element)
                  for both in (rows + inner, inner + columns, rows + columns)]  # fmt: skip
        outs = self.constant("0.0", [self.sizes[s] for s in batch + rows + columns])
        name = self.f.new(
            f"linalg.{'batch_' if batch else ''}matmul ins({left}, {right} : tensor<{shapes[0]}>, "
            f"tensor<{shapes[1]}>) outs({outs} : tensor<{shapes[2]}>) -> tensor<{shapes[2]}>"
        )
        return self.result(name, batch + rows + columns)


def export(specs: KernelSpec, name: str) -> str:
    """See torch_spyre.ktir.from_specs()."""
    plain = [spec for spec in specs if isinstance(spec, OpSpec)]
    if len(plain) != len(specs) or not plain:
        raise Unsupported("KTIR: a list of OpSpecs is wanted, without loops over tiles")
    return _Function(plain).text(name)
