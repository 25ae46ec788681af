# SPDX-License-Identifier: Apache-2.0
"""Small graphs of fp16 in text form."""


def tensor(sizes) -> str:
    return f"f16[{', '.join(map(str, sizes))}]"


def graph(inputs: dict, nodes: list[str], result: str) -> str:
    lines = [f"input %{name}: {tensor(sizes)}" for name, sizes in inputs.items()]
    return "\n".join([*lines, *nodes, f"return %{result}"]) + "\n"


def unary(op: str, shape) -> str:
    return graph({"x": shape}, [f"%p = aten.{op}.default(%x) -> {tensor(shape)}"], "p")


def add(shape, other) -> str:
    node = f"%p = aten.add.Tensor(%x, %y) -> {tensor(shape)}"
    return graph({"x": shape, "y": other}, [node], "p")


def add_scalar(shape) -> str:
    return graph({"x": shape}, [f"%p = aten.add.Scalar(%x, 1.0) -> {tensor(shape)}"], "p")


def summed(shape, dim: int) -> str:
    node = f"%p = aten.sum.dim_IntList(%x, [{dim}], false) -> {tensor((shape[1 - dim],))}"
    return graph({"x": shape}, [node], "p")


def outer_transpose(rows: int, middle: int, cols: int) -> str:
    swapped = tensor((middle, rows, cols))
    nodes = [
        f"%t = aten.transpose.int(%x, 0, 1) -> {swapped}{{{cols}, {middle * cols}, 1}}",
        f"%p = aten.clone.default(%t) -> {swapped}",
    ]
    return graph({"x": (rows, middle, cols)}, nodes, "p")


def cat(rows: int, cols: int, dim: int) -> str:
    out = tensor((2 * rows, cols) if dim == 0 else (rows, 2 * cols))
    node = f"%p = aten.cat.default([%x, %y], {dim}) -> {out}"
    return graph({"x": (rows, cols), "y": (rows, cols)}, [node], "p")


def transposed_add(rows: int, cols: int) -> str:
    """A restickify, then an addition."""
    nodes = [
        f"%t = aten.transpose.int(%x, 0, 1) -> {tensor((cols, rows))}{{1, {cols}}}",
        f"%p = aten.add.Tensor(%t, %y) -> {tensor((cols, rows))}",
    ]
    return graph({"x": (rows, cols), "y": (cols, rows)}, nodes, "p")


def product(m: int, k: int, n: int) -> str:
    node = f"%p = aten.mm.default(%x, %y) -> {tensor((m, n))}"
    return graph({"x": (m, k), "y": (k, n)}, [node], "p")


def batched_product(b: int, m: int, k: int, n: int) -> str:
    node = f"%p = aten.bmm.default(%x, %y) -> {tensor((b, m, n))}"
    return graph({"x": (b, m, k), "y": (b, k, n)}, [node], "p")


def softmax_of(shape, dim: int) -> str:
    node = f"%p = aten._softmax.default(%x, {dim}, false) -> {tensor(shape)}"
    return graph({"x": shape}, [node], "p")
