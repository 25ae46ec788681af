# SPDX-License-Identifier: Apache-2.0
"""Random KTIR kernels of whole numbers, with what they compute by PyTorch's plain operators.

Numbers stay so small that no format rounds them, so any order of additions gives the same."""

import itertools
import math
from collections.abc import Callable

import torch
from ktir_writer import (
    MOST_ELEMENTS,
    Action,
    DeadEnd,
    Environment,
    Number,
    Value,
    Writer,
    axis_map,
    reference_dtype,
)


def truncated(a: torch.Tensor, b: torch.Tensor, rounding: str) -> torch.Tensor:
    return torch.div(a, b, rounding_mode=rounding)


FLOAT_BINARY = {
    "arith.addf": torch.add,
    "arith.subf": torch.sub,
    "arith.mulf": torch.mul,
    "arith.maximumf": torch.maximum,
    "arith.minimumf": torch.minimum,
    "arith.maxnumf": torch.maximum,
    "linalg.add": torch.add,
    "linalg.mul": torch.mul,
    "linalg.max": torch.maximum,
}
INTEGER_BINARY = {
    "arith.addi": torch.add,
    "arith.subi": torch.sub,
    "arith.muli": torch.mul,
    "arith.maxsi": torch.maximum,
    "arith.minsi": torch.minimum,
    "arith.andi": torch.bitwise_and,
    "arith.ori": torch.bitwise_or,
    "arith.xori": torch.bitwise_xor,
    "linalg.sub": torch.sub,
    "linalg.min": torch.minimum,
}
PREDICATES = {
    "lt": torch.lt,
    "le": torch.le,
    "eq": torch.eq,
    "ne": torch.ne,
    "gt": torch.gt,
    "ge": torch.ge,
}
COMBINERS = {
    "addf": (lambda x, d: x.sum(d), "0.0", 0),
    "maximumf": (lambda x, d: x.amax(d), "-500.0", -500),
    "minimumf": (lambda x, d: x.amin(d), "500.0", 500),
    "addi": (lambda x, d: x.sum(d), "0", 0),
    "maxsi": (lambda x, d: x.amax(d), "-100", -100),
    "minsi": (lambda x, d: x.amin(d), "100", 100),
}


def most_after(operation: str, a: int, b: int) -> int:
    kind = operation.split(".")[1]
    if kind.startswith("mul"):
        return a * b
    if kind.startswith(("add", "sub")):
        return a + b
    if kind in ("andi", "ori", "xori"):
        return 2 * (1 << max(a, b).bit_length())
    return max(a, b)


def part_of(
    x: torch.Tensor, at: tuple[int, ...], sizes: list[int], strides: list[int]
) -> torch.Tensor:
    for d, (first, size, step) in enumerate(zip(at, sizes, strides, strict=True)):
        x = x[(slice(None),) * d + (slice(first, first + (size - 1) * step + 1, step),)]
    return x


class Program(Writer):
    """A kernel of some random operations."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.build()

    # ---- Elements

    def binary(self) -> None:
        a = self.value(lambda v: v.element != "i1")
        b = self.alike(a)
        table = FLOAT_BINARY if a.is_float else INTEGER_BINARY
        operation = self.draw.choice(sorted(table))
        most = self.fits(a.element, most_after(operation, a.most, b.most))
        result = Value(self.name(), a.shape, a.element, most)
        text = f"{operation} {a.name}, {b.name} : {a.type}"
        if operation.startswith("linalg"):
            out = self.empty(a.shape, a.element)
            text = (
                f"{operation} ins({a.name}, {b.name} : {a.type}, {a.type}) outs({out} : {a.type}) "
                f"-> {a.type}"
            )
        self.define(text, result, table[operation], a.name, b.name)

    def unary(self) -> None:
        a = self.value(lambda v: v.is_float)
        operation = self.draw.choice(["arith.negf", "math.absf", "math.floor", "math.roundeven"])
        function = {"negf": torch.neg, "absf": torch.abs}.get(operation.split(".")[1], torch.clone)
        result = Value(self.name(), a.shape, a.element, a.most)
        self.define(f"{operation} {a.name} : {a.type}", result, function, a.name)

    def quotient(self) -> None:
        a = self.value(lambda v: v.element in ("i32", "i16", "i8"))
        by = self.draw.choice([1, 2, 3, 7])
        b = self.dense(a, by)
        operation, function = self.draw.choice(
            [
                ("divsi", lambda x, y: truncated(x, y, "trunc")),
                ("floordivsi", lambda x, y: truncated(x, y, "floor")),
                ("ceildivsi", lambda x, y: -truncated(-x, y, "floor")),
                ("remsi", torch.fmod),
            ]
        )
        result = Value(self.name(), a.shape, a.element, a.most)
        text = f"arith.{operation} {a.name}, {b.name} : {a.type}"
        self.define(text, result, function, a.name, b.name)

    def select(self) -> None:
        a = self.value(lambda v: v.element != "i1")
        b, c = self.alike(a), self.alike(a)
        kind, prefix = ("cmpf", "o") if a.is_float else ("cmpi", "s")
        predicate = self.draw.choice(sorted(PREDICATES))
        spelled = predicate if prefix == "s" and predicate in ("eq", "ne") else prefix + predicate
        condition = Value(self.name(), a.shape, "i1", 1)
        self.define(
            f"arith.{kind} {spelled}, {a.name}, {b.name} : {a.type}",
            condition, PREDICATES[predicate], a.name, b.name,
        )  # fmt: skip
        result = Value(self.name(), a.shape, a.element, max(a.most, c.most))
        self.define(
            f"arith.select {condition.name}, {c.name}, {a.name} : {condition.type}, {a.type}",
            result, torch.where, condition.name, c.name, a.name,
        )  # fmt: skip

    def cast(self) -> None:
        a = self.value(lambda v: v.element != "i1")
        choices = {
            "f16": [("arith.extf", "f32"), ("arith.fptosi", "i32")],
            "bf16": [("arith.extf", "f32")],
            "f32": [("arith.truncf", "f16"), ("arith.fptosi", "i32")],
            "i32": [("arith.sitofp", "f32"), ("arith.sitofp", "f16"), ("arith.trunci", "i8")],
            "i16": [("arith.extsi", "i32"), ("arith.sitofp", "f32")],
            "i8": [("arith.extsi", "i32"), ("arith.sitofp", "f16")],
        }
        operation, element = self.draw.choice(choices[a.element])
        result = Value(self.name(), a.shape, element, self.fits(element, a.most))
        to = reference_dtype(element)
        text = f"{operation} {a.name} : {a.type} to {result.type}"
        self.define(text, result, lambda x: x.to(to), a.name)

    # ---- Shapes

    def reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """With dims of one index in front."""
        extra = len(shape) - len(value.shape)
        groups = [list(range(extra + 1))] + [[d] for d in range(extra + 1, len(shape))]
        result = Value(self.name(), shape, value.element, value.most)
        return self.define(
            f"tensor.expand_shape {value.name} {groups} output_shape {list(shape)} : "
            f"{value.type} into {result.type}",
            result, lambda x: x.reshape(shape), value.name,
        )  # fmt: skip

    def collapse(self) -> None:
        a = self.value(lambda v: len(v.shape) > 1)
        first = self.draw.randrange(len(a.shape) - 1)
        groups = [[d] for d in range(first)] + [[first, first + 1]]
        groups += [[d] for d in range(first + 2, len(a.shape))]
        shape = tuple(math.prod(a.shape[d] for d in group) for group in groups)
        result = Value(self.name(), shape, a.element, a.most)
        self.define(
            f"tensor.collapse_shape {a.name} {groups} : {a.type} into {result.type}",
            result, lambda x: x.reshape(shape), a.name,
        )  # fmt: skip

    def expand(self) -> None:
        a = self.value(lambda v: 1 <= len(v.shape) < 4)
        d = self.draw.randrange(len(a.shape))
        outer = self.draw.choice([n for n in (1, 2, 3, 4, 5, 8) if a.shape[d] % n == 0])
        shape = (*a.shape[:d], outer, a.shape[d] // outer, *a.shape[d + 1 :])
        groups = [[k] for k in range(d)] + [[d, d + 1]]
        groups += [[k + 1] for k in range(d + 1, len(a.shape))]
        result = Value(self.name(), shape, a.element, a.most)
        self.define(
            f"tensor.expand_shape {a.name} {groups} output_shape {list(shape)} : {a.type} into "
            f"{result.type}",
            result, lambda x: x.reshape(shape), a.name,
        )  # fmt: skip

    def transpose(self) -> None:
        a = self.value(lambda v: len(v.shape) > 1 and v.element != "i1")
        order = list(range(len(a.shape)))
        self.draw.shuffle(order)
        shape = tuple(a.shape[d] for d in order)
        out = self.empty(shape, a.element)
        result = Value(self.name(), shape, a.element, a.most)
        self.define(
            f"linalg.transpose ins({a.name} : {a.type}) outs({out} : {result.type}) permutation = "
            f"{order}",
            result, lambda x: x.permute(order), a.name,
        )  # fmt: skip

    def broadcast(self) -> None:
        a = self.value(lambda v: len(v.shape) < 4 and v.element != "i1")
        d, n = self.draw.randint(0, len(a.shape)), self.draw.choice([2, 5, 33, 64])
        if math.prod(a.shape) * n > MOST_ELEMENTS:
            raise DeadEnd
        shape = (*a.shape[:d], n, *a.shape[d:])
        out = self.empty(shape, a.element)
        result = Value(self.name(), shape, a.element, a.most)
        self.define(
            f"linalg.broadcast ins({a.name} : {a.type}) outs({out} : {result.type}) dimensions = "
            f"[{d}]",
            result, lambda x: x.unsqueeze(d).expand(shape), a.name,
        )  # fmt: skip

    def slice_of(self, shape: tuple[int, ...]) -> tuple[list[Number], list[int], list[int]]:
        """Offsets, sizes and strides inside of the shape."""
        sizes = [self.draw.choice([n, n, 1, max(1, n // 2)]) for n in shape]
        strides = [
            self.draw.choice([1, 1, 1, 2]) if 2 * (s - 1) < n else 1
            for n, s in zip(shape, sizes, strict=True)
        ]
        offsets = [
            self.coordinate(n - 1 - (s - 1) * t)
            for n, s, t in zip(shape, sizes, strides, strict=True)
        ]
        return offsets, sizes, strides

    def slice_text(self, offsets: list[Number], sizes: list[int], strides: list[int]) -> str:
        return f"[{', '.join(o.name for o in offsets)}] {sizes} {strides}"

    def extract_slice(self) -> None:
        a = self.value(lambda v: bool(v.shape) and v.element != "i1")
        offsets, sizes, strides = self.slice_of(a.shape)
        result = Value(self.name(), tuple(sizes), a.element, a.most)
        self.define(
            f"tensor.extract_slice {a.name}{self.slice_text(offsets, sizes, strides)} : {a.type} "
            f"to {result.type}",
            result, lambda x, *at: part_of(x, at, sizes, strides), a.name,
            *(o.name for o in offsets),
        )  # fmt: skip

    def insert_slice(self) -> None:
        b = self.value(lambda v: bool(v.shape) and v.element != "i1")
        offsets, sizes, strides = self.slice_of(b.shape)
        a = self.value(lambda v: v.shape == tuple(sizes) and v.element == b.element)
        result = Value(self.name(), b.shape, b.element, max(a.most, b.most))

        def insert(x: torch.Tensor, y: torch.Tensor, *at: int) -> torch.Tensor:
            y = y.clone()
            part_of(y, at, sizes, strides).copy_(x)
            return y

        self.define(
            f"tensor.insert_slice {a.name} into {b.name}"
            f"{self.slice_text(offsets, sizes, strides)} : {a.type} into {b.type}",
            result, insert, a.name, b.name, *(o.name for o in offsets),
        )  # fmt: skip

    def extract(self) -> None:
        a = self.value(lambda v: v.element != "i1")
        at = [self.coordinate(n - 1) for n in a.shape]
        shape, one = self.shape(), self.name()
        scalar = Value(one, (), a.element, a.most)
        self.define(
            f"tensor.extract {a.name}[{', '.join(n.name for n in at)}] : {a.type}",
            scalar, lambda x, *i: x[i], a.name, *(n.name for n in at),
        )  # fmt: skip
        self.values.remove(scalar)
        result = Value(self.name(), shape, a.element, a.most)
        self.define(
            f"tensor.splat {one} : {result.type}", result, lambda x: x.expand(shape).clone(), one
        )

    def open_sizes(self) -> None:
        """By types that leave sizes open."""
        a = self.value(lambda v: bool(v.shape) and v.element != "i1")
        kind = "f" if a.is_float else "i"
        open_type = f"tensor<{'?x' * len(a.shape)}{a.element}>"
        one, two = self.name(), self.name()
        self.write(f"{one} = tensor.cast {a.name} : {a.type} to {open_type}")
        self.write(f"{two} = arith.add{kind} {one}, {one} : {open_type}")
        result = Value(self.name(), a.shape, a.element, self.fits(a.element, 2 * a.most))
        text = f"tensor.cast {two} : {open_type} to {a.type}"
        self.define(text, result, lambda x: x + x, a.name)

    def turn(self) -> None:
        """The same bytes in another order: two equal dims exchanged, or one row everywhere."""
        a = self.value(lambda v: len(set(v.shape)) < len(v.shape) and v.element != "i1")
        first, second = self.draw.choice(
            [(d, e) for e in range(len(a.shape)) for d in range(e) if a.shape[d] == a.shape[e]]
        )
        order = list(range(len(a.shape)))
        order[first], order[second] = second, first
        out = self.empty(a.shape, a.element)
        result = Value(self.name(), a.shape, a.element, a.most)
        self.define(
            f"linalg.transpose ins({a.name} : {a.type}) outs({out} : {a.type}) permutation = "
            f"{order}",
            result, lambda x: x.permute(order), a.name,
        )  # fmt: skip

    def one_row(self) -> None:
        """One index of a dim, along all of it."""
        a = self.value(lambda v: len(v.shape) > 1 and v.element != "i1")
        d = self.draw.randrange(len(a.shape))
        at = self.draw.choice([0, self.draw.randrange(a.shape[d])])
        offsets = [at if k == d else 0 for k in range(len(a.shape))]
        sizes = [1 if k == d else n for k, n in enumerate(a.shape)]
        kept = tuple(n for k, n in enumerate(a.shape) if k != d)
        row = Value(self.name(), kept, a.element, a.most)
        self.define(
            f"tensor.extract_slice {a.name}{offsets} {sizes} {[1] * len(sizes)} : {a.type} to "
            f"{row.type}",
            row, lambda x: x.select(d, at), a.name,
        )  # fmt: skip
        out = self.empty(a.shape, a.element)
        result = Value(self.name(), a.shape, a.element, a.most)
        self.define(
            f"linalg.broadcast ins({row.name} : {row.type}) outs({out} : {a.type}) dimensions = "
            f"[{d}]",
            result, lambda x: x.unsqueeze(d).expand(a.shape), row.name,
        )  # fmt: skip

    # ---- Several elements

    def reduce(self) -> None:
        a = self.value(lambda v: bool(v.shape) and v.element != "i1")
        along = sorted(self.draw.sample(range(len(a.shape)), self.draw.choice([1, 1, 2, 3])
                                        if len(a.shape) > 2 else 1))  # fmt: skip
        kinds = ["addf", "maximumf", "minimumf"] if a.is_float else ["addi", "maxsi", "minsi"]
        kind = self.draw.choice(kinds)
        count = math.prod(a.shape[d] for d in along)
        function, start, number = COMBINERS[kind]
        most = self.fits(a.element, a.most * count if kind.startswith("add") else
                         max(a.most, abs(number)))  # fmt: skip
        kept = tuple(n for d, n in enumerate(a.shape) if d not in along)
        onto = self.dense(Value("", kept, a.element, 0), number)
        result = Value(self.name(), kept, a.element, most)
        combine = torch.add if kind.startswith("add") else getattr(torch, kind[:3] + "imum")

        def act(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return combine(function(x, along), y)

        if self.draw.random() < 0.5:
            text = (
                f"linalg.reduce {{ arith.{kind} }} ins({a.name} : {a.type}) outs({onto.name} : "
                f"{onto.type}) dimensions = {along}"
            )
        else:
            text = self.generic_reduction(a, onto, kind, along)
        self.define(text, result, act, a.name, onto.name)

    def generic_reduction(self, a: Value, onto: Value, kind: str, along: list[int]) -> str:
        rank = len(a.shape)
        kept = [d for d in range(rank) if d not in along]
        iterators = ", ".join('"reduction"' if d in along else '"parallel"' for d in range(rank))
        one = self.name()
        return (
            f"linalg.generic {{indexing_maps = [{axis_map(rank, list(range(rank)))}, "
            f"{axis_map(rank, kept)}], iterator_types = [{iterators}]}} ins({a.name} : {a.type}) "
            f"outs({onto.name} : {onto.type}) {{\n^bb0(%x: {a.element}, %y: {a.element}):\n"
            f"{one} = arith.{kind} %y, %x : {a.element}\nlinalg.yield {one} : {a.element}\n}} -> "
            f"{onto.type}"
        )

    def generic(self) -> None:
        """Two tensors along any of the dims of a third one, and an index."""
        a = self.value(lambda v: len(v.shape) > 1 and v.element in ("f32", "i32"))
        along = self.draw.sample(range(len(a.shape)), self.draw.randint(1, len(a.shape)))
        shape = tuple(a.shape[d] for d in along)
        b = self.value(lambda v: v.shape == shape and v.element == a.element)
        kind = "f" if a.is_float else "i"
        by = self.draw.randrange(len(a.shape))
        most = self.fits(a.element, a.most + b.most + a.shape[by])
        rank, element = len(a.shape), a.element
        out = self.empty(a.shape, element)
        maps = [list(range(rank)), along, list(range(rank))]
        n = [self.name() for _ in range(4)]
        index = (
            f"{n[0]} = linalg.index {by} : index\n{n[1]} = arith.index_cast {n[0]} : index to i32"
        )
        number = f"{n[3]} = arith.addi {n[2]}, {n[1]} : i32"
        if a.is_float:
            lane = self.name()
            number = (
                f"{lane} = arith.sitofp {n[1]} : i32 to f32\n"
                f"{n[3]} = arith.addf {n[2]}, {lane} : f32"
            )
        result = Value(self.name(), a.shape, element, most)
        iterators = ", ".join(['"parallel"'] * rank)

        def act(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            ordered = y.permute(sorted(range(len(along)), key=lambda k: along[k]))
            wide = ordered.reshape([m if d in along else 1 for d, m in enumerate(a.shape)])
            steps = torch.arange(a.shape[by]).reshape([-1 if d == by else 1 for d in range(rank)])
            return x + wide + steps.to(x.dtype)

        self.define(
            f"linalg.generic {{indexing_maps = [{', '.join(axis_map(rank, m) for m in maps)}], "
            f"iterator_types = [{iterators}]}} ins({a.name}, {b.name} : "
            f"{a.type}, {b.type}) outs({out} : {a.type}) {{\n"
            f"^bb0(%x: {element}, %y: {element}, %o: {element}):\n{index}\n"
            f"{n[2]} = arith.add{kind} %x, %y : {element}\n{number}\n"
            f"linalg.yield {n[3]} : {element}\n}} -> {a.type}",
            result, act, a.name, b.name,
        )  # fmt: skip

    def product(self) -> None:
        a = self.value(
            lambda v: len(v.shape) in (2, 3) and v.element in ("f16", "f32", "i8", "i32")
        )
        rank = len(a.shape)
        flip = self.draw.random() < 0.3
        k = a.shape[-1]
        b = self.value(
            lambda v: v.element == a.element and len(v.shape) == rank
            and v.shape[:-2] == a.shape[:-2] and v.shape[-1 if flip else -2] == k
        )  # fmt: skip
        n = b.shape[-2 if flip else -1]
        shape = (*a.shape[:-1], n)
        element = {"f16": "f32", "f32": "f32", "i8": "i32", "i32": "i32"}[a.element]
        most = self.fits(element, a.most * b.most * k + 1)
        if math.prod(shape) > MOST_ELEMENTS or math.prod(shape) * k > 200_000:
            raise DeadEnd
        onto = self.dense(Value("", shape, element, 0), self.draw.choice([0, 1]))
        operation = ("batch_matmul" if rank == 3 else "matmul") + ("_transpose_b" if flip else "")
        result = Value(self.name(), shape, element, most)
        self.define(
            f"linalg.{operation} ins({a.name}, {b.name} : {a.type}, {b.type}) outs({onto.name} : "
            f"{onto.type}) -> {onto.type}",
            result, lambda x, y, z: x @ (y.mT if flip else y) + z, a.name, b.name, onto.name,
        )  # fmt: skip

    def across(self) -> None:
        """The sum over groups of neighbouring compute tiles."""
        a = self.value(lambda v: v.element in ("f32", "f16") and len(v.shape) > 0)
        size = self.draw.choice([n for n in (1, 2, 3, 4, 8, self.cores) if self.cores % n == 0])
        if len(self.grid) > 1 or self.depth or self.cores > 32:
            raise DeadEnd
        most = self.fits(a.element, a.most * size)
        groups = self.cores // size
        members = f"affine_set<(i)[g] : (i - {size}*g >= 0, -i + {size}*g + {size - 1} >= 0)>"
        all_groups = f"affine_set<(g) : (g >= 0, -g + {groups - 1} >= 0)>"
        future = f"!ktdp.tile_future<{a.type}, groups = {all_groups}>"
        name, one, zero = self.name("f"), self.name(), self.dense(a, 0)
        self.write(
            f"{name} = ktdp.inter_tile_produce producer_tiles_per_group = {members} -> {future} "
            f"{{\n^bb0(%g: index):\nktdp.yield_partial {a.name} : {a.type}\n}}"
        )
        result = Value(self.name(), a.shape, a.element, most)

        def act(tiles: list[Environment]) -> None:
            for first in range(0, self.cores, size):
                group = tiles[first : first + size]
                total = sum(tile[a.name] for tile in group)
                for tile in group:
                    tile[result.name] = total

        self.write(
            f"{result.name} = ktdp.inter_tile_reduce({name}) consumer_tiles_per_group = {members}, "
            f"identity({zero.name} : {a.type}) : {future} -> {a.type} {{\n"
            f"^bb0(%x: {a.type}, %y: {a.type}):\n{one} = arith.addf %x, %y : {a.type}\n"
            f"ktdp.yield_reduced {one} : {a.type}\n}}",
            act,
        )
        self.values.append(result)

    # ---- Flow

    def inside(self, write_body: Callable[[], None]) -> list[tuple[str, Action]]:
        block, values, numbers = self.block, list(self.values), list(self.numbers)
        self.block = []
        self.depth += 1
        try:
            write_body()
            return self.block
        finally:
            self.depth -= 1
            self.block, self.values, self.numbers = block, values, numbers

    def some(self, most: int) -> None:
        for _ in range(self.draw.randint(1, most)):
            self.statement()

    def loop(self) -> None:
        """With tensors that it hands on; compute tiles may have other numbers of rounds."""
        starts = [self.value(lambda v: v.element != "i1" and v.most <= 64 and bool(v.shape))]
        for _ in range(self.draw.choice([0, 0, 1, 2])):
            starts.append(self.small(self.alike(starts[0]), 64))
        rounds, step = self.draw.randint(1, 4), self.draw.choice([1, 1, 2])
        first = self.draw.choice([0, 0, 1])
        end = self.constant(first + rounds * step)
        if self.draw.random() < 0.4 and self.numbers:
            some = self.coordinate(rounds * step)
            end = self.number(
                f"arith.addi {some.name}, {self.constant(first).name} : index",
                first + rounds * step, lambda x: x + first, some,
            )  # fmt: skip
        carried = [Value(self.name(), v.shape, v.element, max(v.most, 8)) for v in starts]
        for value in carried[1:]:
            carried[0] = Value(carried[0].name, value.shape, value.element,
                               max(carried[0].most, value.most))  # fmt: skip
        carried = [Value(v.name, v.shape, v.element, carried[0].most) for v in carried]
        count, by = Number(self.name("i"), first + (rounds - 1) * step), self.constant(step)
        ends: list[Value] = []

        def body() -> None:
            self.values += carried
            self.numbers.append(count)
            self.rounds.append(count)
            self.some(4)
            ends.extend([self.small(self.alike(v), v.most) for v in carried])
            self.rounds.pop()

        inner = self.inside(body)
        name = self.name()
        form = self.draw.choice([self.for_text, self.for_text, self.while_text])
        text, results = form(name, self.constant(first), end, by, count, starts, carried, ends,
                             "\n".join(line for line, _ in inner))  # fmt: skip

        def act(tiles: list[Environment]) -> None:
            for tile in tiles:
                tile.update({v.name: tile[s.name] for v, s in zip(carried, starts, strict=True)})
            for at in range(first, first + rounds * step, step):
                active = [t for t in tiles if at < int(t[end.name])]  # type: ignore[call-overload]
                for tile in active:
                    tile[count.name] = at
                for _, action in inner:
                    action(active)
                for tile in active:
                    given = [tile[e.name] for e in ends]
                    tile.update({v.name: g for v, g in zip(carried, given, strict=True)})
            for tile in tiles:
                tile.update({r: tile[v.name] for r, v in zip(results, carried, strict=True)})

        self.write(text, act)
        self.values += [
            Value(r, v.shape, v.element, v.most) for r, v in zip(results, carried, strict=True)
        ]

    def for_text(
        self, name: str, first: Number, end: Number, by: Number, count: Number,
        starts: list[Value], carried: list[Value], ends: list[Value], body: str,
    ) -> tuple[str, list[str]]:  # fmt: skip
        several = len(carried) > 1
        types = ", ".join(v.type for v in carried)
        given = ", ".join(f"{v.name} = {s.name}" for v, s in zip(carried, starts, strict=True))
        text = (
            f"{name}{f':{len(carried)}' if several else ''} = scf.for {count.name} = {first.name} "
            f"to {end.name} step {by.name} iter_args({given}) -> ({types}) {{\n{body}\n"
            f"scf.yield {', '.join(e.name for e in ends)} : {types}\n}}"
        )
        return text, [f"{name}#{n}" for n in range(len(carried))] if several else [name]

    def while_text(
        self, name: str, first: Number, end: Number, by: Number, count: Number,
        starts: list[Value], carried: list[Value], ends: list[Value], body: str,
    ) -> tuple[str, list[str]]:  # fmt: skip
        at, go, following = self.name("i"), self.name("b"), self.name("i")
        handed = [self.name() for _ in carried]
        types = ", ".join(["index", *(v.type for v in carried)])
        given = [f"{at} = {first.name}"]
        given += [f"{h} = {s.name}" for h, s in zip(handed, starts, strict=True)]
        arguments = ", ".join([f"{count.name}: index", *(f"{v.name}: {v.type}" for v in carried)])
        text = (
            f"{name}:{len(carried) + 1} = scf.while ({', '.join(given)}) : ({types}) -> ({types}) "
            f"{{\n{go} = arith.cmpi slt, {at}, {end.name} : index\n"
            f"scf.condition({go}) {', '.join([at, *handed])} : {types}\n}} do {{\n"
            f"^bb0({arguments}):\n{body}\n"
            f"{following} = arith.addi {count.name}, {by.name} : index\n"
            f"scf.yield {', '.join([following, *(e.name for e in ends)])} : {types}\n}}"
        )
        return text, [f"{name}#{n + 1}" for n in range(len(carried))]

    def nest(self) -> None:
        """scf.forall and scf.parallel, of which each round stores."""
        trips = [self.draw.randint(1, 3) for _ in range(self.draw.choice([1, 2]))]
        counts = [Number(self.name("i"), n - 1) for n in trips]

        def body() -> None:
            self.numbers += counts
            self.rounds += counts
            self.some(2)
            self.store()
            del self.rounds[-len(counts) :]

        inner = self.inside(body)
        names = ", ".join(c.name for c in counts)
        ends = ", ".join(self.constant(n).name for n in trips)
        head = f"scf.forall ({names}) in ({ends})"
        if self.draw.random() < 0.5:
            zeros = ", ".join([self.constant(0).name] * len(trips))
            ones = ", ".join([self.constant(1).name] * len(trips))
            head = f"scf.parallel ({names}) = ({zeros}) to ({ends}) step ({ones})"

        def act(tiles: list[Environment]) -> None:
            for at in itertools.product(*(range(n) for n in trips)):
                for tile in tiles:
                    tile.update({c.name: i for c, i in zip(counts, at, strict=True)})
                for _, action in inner:
                    action(tiles)

        self.write(f"{head} {{\n" + "\n".join(line for line, _ in inner) + "\n}", act)

    def branch(self) -> None:
        if not self.numbers:
            raise DeadEnd
        at = self.draw.choice(self.numbers)
        limit = self.draw.randint(0, at.most + 1)
        form, holds = self.draw.choice([("slt", int.__lt__), ("eq", int.__eq__)])
        condition = self.name("b")
        like = self.value(lambda v: v.element != "i1")
        ends: list[Value] = []

        def body() -> None:
            self.some(3)
            ends.append(self.alike(like))

        blocks = [self.inside(body) for _ in range(2)]
        self.write(
            f"{condition} = arith.cmpi {form}, {at.name}, {self.constant(limit).name} : index"
        )
        result = Value(self.name(), like.shape, like.element, max(e.most for e in ends))
        texts = ["\n".join(line for line, _ in block) for block in blocks]

        def act(tiles: list[Environment]) -> None:
            for wanted, block, end in zip((True, False), blocks, ends, strict=True):
                active = [t for t in tiles if holds(t[at.name], limit) == wanted]
                for _, action in block:
                    action(active)
                for tile in active:
                    tile[result.name] = tile[end.name]

        self.write(
            f"{result.name} = scf.if {condition} -> ({like.type}) {{\n{texts[0]}\nscf.yield "
            f"{ends[0].name} : {like.type}\n}} else {{\n{texts[1]}\nscf.yield {ends[1].name} : "
            f"{like.type}\n}}",
            act,
        )
        self.values.append(result)

    def arithmetic(self) -> None:
        if not self.numbers:
            raise DeadEnd
        a, b = self.draw.choice(self.numbers), self.draw.choice(self.numbers)
        form = self.draw.choice(["addi", "muli", "divui", "map"])
        by = self.draw.choice([2, 3])
        if form == "addi":
            self.number(f"arith.addi {a.name}, {b.name} : index", a.most + b.most,
                        lambda x, y: x + y, a, b)  # fmt: skip
        elif form == "muli" and a.most * b.most < 4096:
            self.number(f"arith.muli {a.name}, {b.name} : index", a.most * b.most,
                        lambda x, y: x * y, a, b)  # fmt: skip
        elif form == "divui":
            self.number(f"arith.divui {a.name}, {self.constant(by).name} : index", a.most // by,
                        lambda x: x // by, a)  # fmt: skip
        else:
            map_ = f"affine_map<(d0)[s0] -> (d0 * 2 + s0 floordiv {by})>"
            text = f"affine.apply {map_}({a.name})[{b.name}]"
            self.number(text, 2 * a.most + b.most // by, lambda x, y: 2 * x + y // by, a, b)

    # ---- The kernel

    KINDS = (
        ["load"] * 4
        + ["binary"] * 5
        + ["unary", "quotient", "select", "cast", "cast", "collapse", "expand", "transpose"]
        + ["broadcast", "extract_slice", "extract_slice", "insert_slice", "extract", "reduce"]
        + ["reduce", "generic", "product", "product", "product", "across", "gather", "scratchpad"]
        + [
            "scatter",
            "parts",
            "turn",
            "turn",
            "one_row",
            "nest",
            "loop",
            "loop",
            "branch",
            "arithmetic",
            "arithmetic",
            "store",
        ]
    )

    def statement(self) -> None:
        for _ in range(40):
            kind = self.draw.choice(self.KINDS)
            if kind in ("loop", "branch", "nest", "gather", "load") and self.depth > 1:
                continue
            state = (list(self.block), list(self.values), list(self.numbers), list(self.rounds))
            kept = (dict(self.arrays), dict(self.given), dict(self.expected), list(self.parameters))
            lx = self.lx_bytes
            try:
                getattr(self, kind)()
            except DeadEnd:
                self.block, self.values, self.numbers, self.rounds = state
                self.arrays, self.given, self.expected, self.parameters = kept
                self.lx_bytes = lx
                continue
            self.kinds.append(kind)
            return

    def build(self) -> None:
        ids = [Number(self.name("id"), n - 1) for n in self.grid]
        places = [str(n) for n in self.grid]
        self.numbers += ids
        self.constant(0)
        self.tile_number = ids[0]
        self.write(
            f"{', '.join(i.name for i in ids)} = ktdp.get_compute_tile_id : "
            f"{', '.join(['index'] * len(ids))}",
            lambda tiles: self.place(tiles, ids),
        )
        for i in ids[1:]:  # in the order of rows
            n = self.constant(i.most + 1)
            up = self.number(
                f"arith.muli {self.tile_number.name}, {n.name} : index",
                self.tile_number.most * n.most, lambda x, m=n.most: x * m, self.tile_number,
            )  # fmt: skip
            self.tile_number = self.number(
                f"arith.addi {up.name}, {i.name} : index", up.most + i.most,
                lambda x, y: x + y, up, i,
            )  # fmt: skip
        self.load()
        for _ in range(self.draw.randint(3, 12)):
            self.statement()
        for _ in range(2):
            self.store()
        parameters = ", ".join(f"%{n}: {t}" for n, t in self.parameters)
        lines = "\n".join(line for line, _ in self.block)
        self.text = (
            f"module {{ func.func @k({parameters}) attributes {{grid = [{', '.join(places)}]}} {{\n"
            + "\n".join(self.head)
            + f"\n{lines}\nreturn\n}} }}\n"
        )
        self.execute()

    def place(self, tiles: list[Environment], ids: list[Number]) -> None:
        for core, tile in enumerate(tiles):
            rest = core
            for i in reversed(ids):
                tile[i.name], rest = rest % (i.most + 1), rest // (i.most + 1)

    def execute(self) -> None:
        tiles: list[Environment] = [
            {n.name: value for value, n in self.constants.items()} for _ in range(self.cores)
        ]
        for _, action in self.block:
            action(tiles)
