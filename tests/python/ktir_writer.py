# SPDX-License-Identifier: Apache-2.0
"""Writes a KTIR kernel one operation at a time: its text, and an action that does the same for the
compute tiles that get there, whose values are float64 and int64 tensors by name. Values, numbers,
views, loads and stores; ktir_programs.py has what is computed."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch

Environment = dict[str, object]
Action = Callable[[list[Environment]], None]

EXACT = {"f32": 1 << 24, "f16": 1024, "bf16": 256, "i32": 1 << 30, "i16": 1 << 14, "i8": 120}
DTYPE = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
}
DIMS = (1, 2, 3, 4, 7, 16, 33, 64, 65, 100, 128)
MOST_ELEMENTS = 4096
UNTOUCHED = 77


@dataclass(frozen=True)
class Value:
    """A tensor of which no element is further from 0 than `most`."""

    name: str
    shape: tuple[int, ...]
    element: str
    most: int

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.element)

    @property
    def is_float(self) -> bool:
        return "f" in self.element


@dataclass(frozen=True)
class Number:
    """A number of type index, from 0 to `most`."""

    name: str
    most: int


@dataclass(frozen=True)
class Memory:
    """A view of an array: element (i, j, ..) is at start + i * strides[0] + j * strides[1] + .."""

    view: str
    type: str
    array: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: Callable[[Environment], int]
    element: str
    most: int = 0

    def elements(self, arrays: dict[str, torch.Tensor], environment: Environment) -> torch.Tensor:
        return arrays[self.array].as_strided(self.shape, self.strides, self.start(environment))


class DeadEnd(Exception):
    """Nothing here can be an operand of the operation."""


def dims(shape: tuple[int, ...]) -> str:
    return "".join(f"{n}x" for n in shape)


def tensor_type(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{dims(shape)}{element}>"


def box(shape: tuple[int, ...], begin: tuple[int, int] | None = None) -> str:
    """All coordinates of the shape; those of one dim may begin elsewhere."""
    names = ", ".join(f"d{d}" for d in range(len(shape)))
    first = [begin[1] if begin and begin[0] == d else 0 for d in range(len(shape))]
    rules = ", ".join(
        f"d{d} - {at} >= 0, -d{d} + {at + n - 1} >= 0"
        for d, (n, at) in enumerate(zip(shape, first, strict=True))
    )
    return f"affine_set<({names}) : ({rules})>"


def axis_map(rank: int, order: list[int]) -> str:
    names = ", ".join(f"d{d}" for d in range(rank))
    return f"affine_map<({names}) -> ({', '.join(f'd{d}' for d in order)})>"


def reference_dtype(element: str) -> torch.dtype:
    return torch.float64 if "f" in element else torch.int64


class Writer:
    """`text`, `given` and, by name, `expected` of what a kernel stores into."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.grid = self.draw.choice([(1,), (2,), (3,), (8,), (32,), (40,), (2, 3), (4, 1, 2)])
        self.cores = math.prod(self.grid)
        self.names = 0
        self.head: list[str] = []
        self.block: list[tuple[str, Action]] = []
        self.values: list[Value] = []
        self.numbers: list[Number] = []
        self.parameters: list[tuple[str, str]] = []
        self.arrays: dict[str, torch.Tensor] = {}
        self.expected: dict[str, torch.Tensor] = {}
        self.given: dict[str, torch.Tensor | int] = {}
        self.constants: dict[int, Number] = {}
        self.rounds: list[Number] = []
        self.depth = 0
        self.lx_bytes = 0
        self.kinds: list[str] = []

    # ---- Writing

    def name(self, prefix: str = "v") -> str:
        self.names += 1
        return f"%{prefix}{self.names}"

    def write(self, text: str, action: Action | None = None) -> None:
        self.block.append((text, action or (lambda tiles: None)))

    def define(
        self, text: str, result: Value, function: Callable[..., object], *operands: str
    ) -> Value:
        def act(tiles: list[Environment]) -> None:
            for tile in tiles:
                tile[result.name] = function(*(tile[o] for o in operands))

        self.write(f"{result.name} = {text}", act)
        self.values.append(result)
        return result

    def number(
        self, text: str, most: int, function: Callable[..., int], *operands: Number
    ) -> Number:
        result = Number(self.name("n"), most)

        def act(tiles: list[Environment]) -> None:
            for tile in tiles:
                tile[result.name] = function(*(tile[o.name] for o in operands))

        self.write(f"{result.name} = {text}", act)
        self.numbers.append(result)
        return result

    def constant(self, value: int) -> Number:
        if value not in self.constants:
            self.constants[value] = Number(f"%c{value}", value)
            self.head.append(f"%c{value} = arith.constant {value} : index")
        return self.constants[value]

    # ---- Choices

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = rank or self.draw.choice([1, 2, 2, 2, 3, 3, 4])
        while True:
            shape = tuple(self.draw.choice(DIMS) for _ in range(rank))
            if math.prod(shape) <= MOST_ELEMENTS:
                return shape

    def value(self, accept: Callable[[Value], bool] = lambda v: True) -> Value:
        fit = [v for v in self.values[-12:] if accept(v)]
        if not fit:
            raise DeadEnd
        return self.draw.choice(fit)

    def alike(self, other: Value) -> Value:
        return self.value(lambda v: v.shape == other.shape and v.element == other.element)

    def fits(self, element: str, most: int) -> int:
        if most > EXACT[element]:
            raise DeadEnd
        return most

    def small(self, value: Value, most: int) -> Value:
        """The value itself, or cut to that range."""
        if value.most <= most:
            return value
        kind, suffix = ("f", "imumf") if value.is_float else ("i", "si")
        low, high = self.dense(value, -most), self.dense(value, most)
        cut = Value(self.name(), value.shape, value.element, value.most)
        self.define(
            f"arith.min{suffix} {value.name}, {high.name} : {value.type}",
            cut, lambda x: x.clamp(max=most), value.name,
        )  # fmt: skip
        result = Value(self.name(), value.shape, value.element, most)
        return self.define(
            f"arith.max{suffix} {cut.name}, {low.name} : {value.type}",
            result, lambda x: x.clamp(min=-most), cut.name,
        )  # fmt: skip

    def literal(self, element: str, value: int) -> str:
        return f"{value}.0" if "f" in element else str(value)

    def dense(self, like: Value, value: int) -> Value:
        result = Value(self.name(), like.shape, like.element, abs(value))
        filled = torch.full(like.shape, value, dtype=reference_dtype(like.element))
        return self.define(
            f"arith.constant dense<{self.literal(like.element, value)}> : {like.type}",
            result, lambda: filled,
        )  # fmt: skip

    def empty(self, shape: tuple[int, ...], element: str) -> str:
        name = self.name("e")
        self.write(f"{name} = tensor.empty() : {tensor_type(shape, element)}")
        return name

    def coordinate(self, most: int) -> Number:
        """A number from 0 to `most`."""
        if most == 0 or not self.numbers:
            return self.constant(0)
        at = self.draw.choice(self.numbers)
        if at.most <= most:
            return at
        bound = self.constant(most + 1)
        form = self.draw.choice(["arith.remui", "arith.minsi", "affine"])
        if form == "affine":
            text = f"affine.apply affine_map<(d0) -> (d0 mod {most + 1})>({at.name})"
            return self.number(text, most, lambda x: x % (most + 1), at)
        if form == "arith.minsi":
            last = self.constant(most)
            return self.number(
                f"arith.minsi {at.name}, {last.name} : index", most, lambda x: min(x, most), at
            )
        return self.number(
            f"arith.remui {at.name}, {bound.name} : index", most, lambda x: x % (most + 1), at
        )

    # ---- Memory

    def array(self, element: str, count: int, most: int) -> str:
        """An argument of whole numbers up to `most`."""
        name = f"a{len(self.arrays)}"
        numbers = torch.randint(-most, most + 1, (count,), generator=self.generator)
        self.parameters.append((name, "index"))
        self.given[name] = numbers.to(DTYPE[element])
        self.arrays[name] = numbers.to(reference_dtype(element))
        return name

    def result_array(self, element: str, count: int) -> str:
        name = f"a{len(self.arrays)}"
        self.parameters.append((name, "index"))
        self.given[name] = torch.full((count,), UNTOUCHED, dtype=DTYPE[element])
        self.expected[name] = self.arrays[name] = torch.full(
            (count,), UNTOUCHED, dtype=reference_dtype(element)
        )
        return name

    def layout(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Strides of any order of dims with gaps between them, and the elements that they span."""
        order = list(range(len(shape)))
        if self.draw.random() < 0.3:
            self.draw.shuffle(order)
        strides, extent = [0] * len(shape), 1
        for d in reversed(order):
            strides[d] = extent
            extent *= shape[d] + self.draw.choice([0, 0, 0, 1, 5])
        return tuple(strides), extent

    def view(
        self,
        array: str,
        element: str,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: Number,
        space: str = "global",
        most: int = 0,
        begin: tuple[int, int] | None = None,
    ) -> Memory:
        pointer = f"%{array}"
        if offset.name != "%c0":
            pointer = self.name("p")
            self.write(f"{pointer} = arith.addi %{array}, {offset.name} : index")
        sizes: list[str] = [str(n) for n in shape]
        known = list(sizes)
        for d in range(len(shape)):
            if space == "global" and not begin and self.draw.random() < 0.1:
                sizes[d], known[d] = self.size_value(shape[d]), "?"
        view = self.name("m")
        memory = f"memref<{''.join(n + 'x' for n in known)}{element}>"
        coordinates = ""
        if begin or ("?" not in known and self.draw.random() < 0.3):
            coordinates = f"coordinate_set = {box(shape, begin)}, "
        self.write(
            f"{view} = ktdp.construct_memory_view {pointer}, sizes: [{', '.join(sizes)}], strides: "
            f"{list(strides)} {{{coordinates}memory_space = #ktdp.memory_space<{space}>}} : "
            f"{memory}"
        )
        return Memory(
            view, memory, array, shape, strides,
            lambda tile: int(tile.get(offset.name, offset.most)),  # type: ignore[call-overload]
            element, most,
        )  # fmt: skip

    def size_value(self, size: int) -> str:
        """A size as a value: a parameter of the function."""
        name = f"s{len(self.parameters)}"
        self.parameters.append((name, "index"))
        self.given[name] = size
        return f"%{name}"

    def tile(
        self, memory: Memory, at: list[Number], shape: tuple[int, ...],
        order: list[int] | None = None,
    ) -> tuple[str, str, Callable[[dict, Environment], torch.Tensor]]:  # fmt: skip
        """An access tile of that shape, with its dims in any order; its elements by arrays and
        compute tile."""
        name, rank = self.name("t"), len(shape)
        order, coordinates, attributes = order or list(range(rank)), list(range(rank)), []
        if self.draw.random() < 0.2:
            self.draw.shuffle(coordinates)
            attributes.append(f"base_map = {axis_map(rank, coordinates)}")
        if order != sorted(order) or self.draw.random() < 0.3:
            attributes.append(f"access_tile_set = {box(shape)}")
            attributes.append(f"access_tile_order = {axis_map(rank, order)}")
        result = tuple(shape[d] for d in order)
        operands = [0] * rank
        for place, operand in enumerate(coordinates):
            operands[operand] = place
        names = ", ".join(at[operands[o]].name for o in range(rank))
        type_ = f"!ktdp.access_tile<{dims(result)}index>"
        self.write(
            f"{name} = ktdp.construct_access_tile {memory.view}[{names}] "
            f"{{{', '.join(attributes)}}} : {memory.type} -> {type_}"
        )

        def elements(arrays: dict[str, torch.Tensor], tile: Environment) -> torch.Tensor:
            part = memory.elements(arrays, tile)
            for d, n in enumerate(shape):
                part = part.narrow(d, int(tile[at[d].name]), n)  # type: ignore[call-overload]
            return part.permute(order)

        return name, type_, elements

    def load(self) -> None:
        element = self.draw.choice(["f32", "f32", "f16", "f16", "i32", "bf16", "i8", "i16"])
        shape = self.shape()
        room = tuple(n + self.draw.choice([0, 0, 1, 3, 32]) for n in shape)
        strides, extent = self.layout(room)
        shift = self.draw.choice([0, 0, 1, 64])
        offset = self.constant(0)
        if shift:
            offset = self.constant(shift)
        most = self.draw.choice([1, 4, 8])
        array = self.array(element, extent + shift, most)
        memory = self.view(array, element, room, strides, offset, most=most)
        if "?" not in memory.type and self.draw.random() < 0.2:
            memory = self.subview(memory, shape)
        at = [self.coordinate(r - n) for r, n in zip(memory.shape, shape, strict=True)]
        order = list(range(len(shape)))
        if self.draw.random() < 0.2:
            self.draw.shuffle(order)
        tile, type_, elements = self.tile(memory, at, shape, order)
        result = Value(self.name(), tuple(shape[d] for d in order), element, most)
        self.load_into(result, tile, type_, elements)

    def subview(self, memory: Memory, least: tuple[int, ...]) -> Memory:
        """A part of a view that has room for `least` still, with steps where there is."""
        sizes, steps, offsets = [], [], []
        for n, m in zip(memory.shape, least, strict=True):
            step = self.draw.choice([1, 2]) if 2 * (m - 1) < n else 1
            sizes.append(self.draw.randint(m, (n - 1) // step + 1))
            steps.append(step)
            offsets.append(self.draw.randint(0, n - 1 - (sizes[-1] - 1) * step))
        strides = tuple(s * t for s, t in zip(memory.strides, steps, strict=True))
        begin = sum(o * s for o, s in zip(offsets, memory.strides, strict=True))
        name = self.name("m")
        type_ = (
            f"memref<{dims(tuple(sizes))}{memory.element}, strided<{list(strides)}, offset: "
            f"{begin}>>"
        )
        self.write(
            f"{name} = memref.subview {memory.view}{offsets} {sizes} {steps} : {memory.type} to "
            f"{type_}"
        )
        return Memory(
            name, type_, memory.array, tuple(sizes), strides,
            lambda tile: memory.start(tile) + begin, memory.element, memory.most,
        )  # fmt: skip

    def load_into(self, result: Value, tile: str, type_: str, elements: Callable) -> None:
        def act(tiles: list[Environment]) -> None:
            for environment in tiles:
                environment[result.name] = elements(self.arrays, environment).clone()

        self.write(f"{result.name} = ktdp.load {tile} : {type_} -> {result.type}", act)
        self.values.append(result)

    def gather(self) -> None:
        """Rows by indices, of which compute tiles take others each."""
        rows, width = self.draw.choice([5, 40, 64]), self.shape(self.draw.choice([1, 2]))
        count = self.draw.choice([1, 3, 16, 33])
        if count * math.prod(width) > MOST_ELEMENTS:
            raise DeadEnd
        element = self.draw.choice(["f32", "f16", "i32"])
        table = self.array(element, rows * math.prod(width), 8)
        spare = self.draw.choice([0, 4, 31])
        indices = self.array("i32", count + spare, 1)
        chosen = torch.randint(0, rows, (count + spare,), generator=self.generator)
        self.given[indices], self.arrays[indices] = chosen.int(), chosen
        zero, first = self.constant(0), self.coordinate(spare)
        strides = torch.empty((rows, *width), device="meta").stride()
        of = self.view(table, element, (rows, *width), strides, zero, most=8)
        by = self.view(indices, "i32", (count + spare,), (1,), zero)
        variables = [f"%i{d}" for d in range(1 + len(width))]
        tile, shape = self.name("t"), (count, *width)
        type_ = f"!ktdp.access_tile<{dims(shape)}index>"
        self.write(
            f"{tile} = ktdp.construct_indirect_access_tile intermediate_variables"
            f"({', '.join(variables)}) {of.view}[ind({by.view}[%i0 + {first.name}]), "
            f"{', '.join(f'({v})' for v in variables[1:])}] {{variables_space_set = {box(shape)}}}"
            f" : {of.type}, {by.type} -> {type_}"
        )

        def elements(arrays: dict[str, torch.Tensor], tile: Environment) -> torch.Tensor:
            begin = int(tile[first.name])  # type: ignore[call-overload]
            return of.elements(arrays, tile)[arrays[indices][begin : begin + count]]

        self.load_into(Value(self.name(), shape, element, 8), tile, type_, elements)

    def store(self, value: Value | None = None) -> None:
        """Into a place of the compute tile's own and of each round of the loops around."""
        value = value or self.value(lambda v: v.element != "i1" and bool(v.shape))
        lead = (self.cores, *(n.most + 1 for n in self.rounds))
        if math.prod(lead) * math.prod(value.shape) > 400_000:
            raise DeadEnd
        shape = lead + value.shape
        strides, extent = self.layout(shape)
        array = self.result_array(value.element, extent)
        at = [self.tile_number, *self.rounds]
        rank = len(value.shape)
        if self.draw.random() < 0.5:  # by arithmetic on the pointer
            memory = self.view_at(array, value, at, strides)
            tile, type_, elements = self.tile(memory, [self.constant(0)] * rank, value.shape)
            source = value
        else:
            memory = self.view(array, value.element, shape, strides, self.constant(0))
            whole = (1,) * len(lead) + value.shape
            source = self.reshaped(value, whole)
            places = at + [self.constant(0)] * rank
            tile, type_, elements = self.tile(memory, places, whole)
        self.store_from(source, tile, type_, elements)

    def view_at(
        self, array: str, value: Value, at: list[Number], strides: tuple[int, ...]
    ) -> Memory:
        offset = self.constant(0)
        for number, stride in zip(at, strides, strict=False):
            by = self.constant(stride)
            product = self.number(
                f"arith.muli {number.name}, {by.name} : index", number.most * stride,
                lambda x, s=stride: x * s, number,
            )  # fmt: skip
            offset = self.number(
                f"arith.addi {offset.name}, {product.name} : index", offset.most + product.most,
                lambda x, y: x + y, offset, product,
            )  # fmt: skip
        return self.view(array, value.element, value.shape, strides[len(at) :], offset)

    def store_from(self, source: Value, tile: str, type_: str, elements: Callable) -> None:
        def act(tiles: list[Environment]) -> None:
            for environment in tiles:
                elements(self.arrays, environment).copy_(environment[source.name])

        self.write(f"ktdp.store {source.name}, {tile} : {source.type}, {type_}", act)

    def parts(self) -> None:
        """A tile of a view that is distributed over two or three arrays along a dim."""
        shape = self.shape()
        d = self.draw.randrange(len(shape))
        sizes = [self.draw.choice([1, 3, shape[d]]) for _ in range(self.draw.choice([2, 3]))]
        if sum(sizes) < shape[d]:
            raise DeadEnd
        element, begin, views = self.draw.choice(["f32", "f16"]), 0, []
        for size in sizes:
            part = (*shape[:d], size, *shape[d + 1 :])
            strides, extent = self.layout(part)
            array = self.array(element, extent, 8)
            views.append(
                self.view(array, element, part, strides, self.constant(0), begin=(d, begin))
            )
            begin += size
        whole = (*shape[:d], begin, *shape[d + 1 :])
        name, type_ = self.name("m"), f"memref<{dims(whole)}{element}>"
        self.write(
            f"{name} = ktdp.construct_distributed_memory_view "
            f"({', '.join(v.view for v in views)} : {', '.join(v.type for v in views)}) : {type_}"
        )
        at = [self.constant(0)] * len(shape)
        at[d] = self.coordinate(begin - shape[d])
        tile, tile_type = self.name("t"), f"!ktdp.access_tile<{dims(shape)}index>"
        self.write(
            f"{tile} = ktdp.construct_access_tile {name}[{', '.join(n.name for n in at)}] : "
            f"{type_} -> {tile_type}"
        )

        def elements(arrays: dict[str, torch.Tensor], tile: Environment) -> torch.Tensor:
            joined = torch.cat([v.elements(arrays, tile) for v in views], d)
            return joined.narrow(d, int(tile[at[d].name]), shape[d])  # type: ignore[call-overload]

        self.load_into(Value(self.name(), shape, element, 8), tile, tile_type, elements)

    def scatter(self) -> None:
        """Rows of the compute tile's own part of an array, at indices that do not repeat."""
        value = self.value(lambda v: v.element in ("f32", "f16", "i32") and len(v.shape) > 1)
        if self.rounds:
            raise DeadEnd
        count, width = value.shape[0], value.shape[1:]
        rows = count + self.draw.choice([0, 1, 7])
        each = rows * math.prod(width)
        array = self.result_array(value.element, self.cores * each)
        indices = self.array("i32", rows, 1)
        chosen = torch.randperm(rows, generator=self.generator)
        self.given[indices], self.arrays[indices] = chosen.int(), chosen
        like = Value("", (rows, *width), value.element, 0)
        strides = torch.empty((rows, *width), device="meta").stride()
        of = self.view_at(array, like, [self.tile_number], (each, *strides))
        by = self.view(indices, "i32", (rows,), (1,), self.constant(0))
        first = self.coordinate(rows - count)
        variables = [f"%i{d}" for d in range(len(value.shape))]
        tile, type_ = self.name("t"), f"!ktdp.access_tile<{dims(value.shape)}index>"
        self.write(
            f"{tile} = ktdp.construct_indirect_access_tile intermediate_variables"
            f"({', '.join(variables)}) {of.view}[ind({by.view}[%i0 + {first.name}]), "
            f"{', '.join(f'({v})' for v in variables[1:])}] {{variables_space_set = "
            f"{box(value.shape)}}} : {of.type}, {by.type} -> {type_}"
        )

        def act(tiles: list[Environment]) -> None:
            for tile in tiles:
                begin = int(tile[first.name])  # type: ignore[call-overload]
                rows = self.arrays[indices][begin : begin + count]
                of.elements(self.arrays, tile)[rows] = tile[value.name]  # type: ignore[assignment]

        self.write(f"ktdp.store {value.name}, {tile} : {value.type}, {type_}", act)

    def scratchpad(self) -> None:
        """Through a view of the compute tile's own LX, and a part of it back."""
        value = self.value(lambda v: v.element != "i1" and bool(v.shape))
        array = f"lx{self.names}"
        strides, extent = self.layout(value.shape)
        width = DTYPE[value.element].itemsize
        start = (self.lx_bytes + 127) // 128 * 128
        if start + extent * width > 1 << 19 or self.depth or self.cores > 32:
            raise DeadEnd
        self.lx_bytes = start + extent * width
        self.head.append(f"%{array} = arith.constant {start // width} : index")

        def act(tiles: list[Environment]) -> None:
            for tile in tiles:
                tile[array] = torch.zeros(extent, dtype=reference_dtype(value.element))

        memory = self.view(array, value.element, value.shape, strides, self.constant(0), "ct_local")
        self.write("", act)
        zeros = [self.constant(0)] * len(value.shape)
        tile, type_, elements = self.tile(memory, zeros, value.shape)
        self.store_from(value, tile, type_, lambda arrays, tile: elements(tile, tile))
        shape = tuple(self.draw.choice([n, max(1, n // 2)]) for n in value.shape)
        at = [self.coordinate(n - m) for n, m in zip(value.shape, shape, strict=True)]
        tile, type_, part = self.tile(memory, at, shape)
        result = Value(self.name(), shape, value.element, value.most)
        self.load_into(result, tile, type_, lambda arrays, tile: part(tile, tile))
