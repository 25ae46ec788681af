# SPDX-License-Identifier: Apache-2.0
"""Kernels as Triton's tutorials have them, in the linalg that Triton is lowered to: in the
interpreter and on the card, to equal bytes, and against PyTorch."""

from collections.abc import Callable

import pytest
import torch
import torch_spyre.ktir as ktir

CONSTANTS = "\n".join(
    f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256)
)


def view(name: str, pointer: str, sizes: str, element: str = "f16") -> str:
    """A dense view: view("x", "x_ptr", "8x64")."""
    dims = [int(d) for d in sizes.split("x")]
    strides = [1]
    for d in dims[:0:-1]:
        strides.insert(0, strides[0] * d)
    return (
        f"%{name} = ktdp.construct_memory_view %{pointer}, sizes: {dims}, strides: {strides} "
        f"{{memory_space = #ktdp.memory_space<global>}} : memref<{sizes}x{element}>\n"
    )


def load(value: str, of: str, at: str, sizes: str, memory: str, element: str = "f16") -> str:
    return (
        f"%{value}_at = ktdp.construct_access_tile %{of}[{at}] : memref<{memory}x{element}> -> "
        f"!ktdp.access_tile<{sizes}xindex>\n"
        f"%{value} = ktdp.load %{value}_at : !ktdp.access_tile<{sizes}xindex> -> "
        f"tensor<{sizes}x{element}>\n"
    )


def store(value: str, to: str, at: str, sizes: str, memory: str, element: str = "f16") -> str:
    return (
        f"%{value}_to = ktdp.construct_access_tile %{to}[{at}] : memref<{memory}x{element}> -> "
        f"!ktdp.access_tile<{sizes}xindex>\n"
        f"ktdp.store %{value}, %{value}_to : tensor<{sizes}x{element}>, "
        f"!ktdp.access_tile<{sizes}xindex>\n"
    )


def fill(name: str, value: str, sizes: str, element: str = "f32") -> str:
    return (
        f"%{name}_c = arith.constant {value} : {element}\n"
        f"%{name}_e = tensor.empty() : tensor<{sizes}x{element}>\n"
        f"%{name} = linalg.fill ins(%{name}_c : {element}) outs(%{name}_e : "
        f"tensor<{sizes}x{element}>) -> tensor<{sizes}x{element}>\n"
    )


def kernel(parameters: str, grid: int, body: str) -> str:
    names = ", ".join(f"%{p}: index" for p in parameters.split())
    return (
        f"module {{ func.func @k({names}) attributes {{grid = [{grid}]}} {{\n{CONSTANTS}\n"
        f"%pid = ktdp.get_compute_tile_id : index\n{body}\nreturn\n}} }}\n"
    )


def over(n: int) -> str:
    """The dims of a generic over n parallel dims."""
    return ", ".join(f"d{d}" for d in range(n))


def generic(
    out: str, ins: dict[str, str], maps: list[str], sizes: str, body: str, element: str = "f16"
) -> str:
    """linalg.generic over parallel dims; `ins` are values and their types, `maps` of the ins."""
    rank = sizes.count("x") + 1
    all_maps = ", ".join(f"affine_map<({over(rank)}) -> ({m})>" for m in [*maps, over(rank)])
    arguments = ", ".join(f"%{n}_: {t.rsplit('x', 1)[-1].rstrip('>')}" for n, t in ins.items())
    iterators = ", ".join(['"parallel"'] * rank)
    return (
        f"%{out}_e = tensor.empty() : tensor<{sizes}x{element}>\n"
        f"%{out} = linalg.generic {{indexing_maps = [{all_maps}], iterator_types = "
        f"[{iterators}]}} "
        f"ins({', '.join('%' + n for n in ins)} : {', '.join(ins.values())}) "
        f"outs(%{out}_e : tensor<{sizes}x{element}>) {{\n^bb0({arguments}, %out_: {element}):\n"
        f"{body}\n}} -> tensor<{sizes}x{element}>\n"
    )


def reduce(out: str, value: str, start: str, sizes: str, dim: int, op: str, element: str = "f32"):
    dims = sizes.split("x")
    kept = "x".join(d for n, d in enumerate(dims) if n != dim)
    return fill(f"{out}_s", start, kept, element) + (
        f"%{out} = linalg.reduce ins(%{value} : tensor<{sizes}x{element}>) "
        f"outs(%{out}_s : tensor<{kept}x{element}>) dimensions = [{dim}]\n"
        f"(%in: {element}, %init: {element}) {{ %r_{out} = {op} %in, %init : {element}\n"
        f"linalg.yield %r_{out} : {element} }}\n"
    )


def widen(name: str, value: str, sizes: str) -> str:
    return f"%{name} = arith.extf %{value} : tensor<{sizes}xf16> to tensor<{sizes}xf32>\n"


def narrow(name: str, value: str, sizes: str) -> str:
    return f"%{name} = arith.truncf %{value} : tensor<{sizes}xf32> to tensor<{sizes}xf16>\n"


def binary(name: str, op: str, a: str, b: str, type_: str) -> str:
    return f"%{name} = {op} %{a}, %{b} : tensor<{type_}>\n"


def product(name: str, a: str, b: str, onto: str, op: str = "matmul") -> str:
    """linalg.matmul or one of its kin; the operands with their types: "a 16x64xf16"."""
    (a, a_type), (b, b_type), (onto, type_) = a.split(), b.split(), onto.split()
    return (
        f"%{name} = linalg.{op} ins(%{a}, %{b} : tensor<{a_type}>, tensor<{b_type}>) "
        f"outs(%{onto} : tensor<{type_}>) -> tensor<{type_}>\n"
    )


def spread(name: str, value: str, dim: int, sizes: str, element: str = "f32") -> str:
    """linalg.broadcast along a new dim."""
    dims = sizes.split("x")
    kept = "x".join(d for n, d in enumerate(dims) if n != dim)
    return (
        f"%{name}_e = tensor.empty() : tensor<{sizes}x{element}>\n"
        f"%{name} = linalg.broadcast ins(%{value} : tensor<{kept}x{element}>) "
        f"outs(%{name}_e : tensor<{sizes}x{element}>) dimensions = [{dim}]\n"
    )


def vector_add() -> tuple[str, dict, torch.Tensor]:
    """The mask of Triton's first tutorial: elements behind n are not stored, but zeros."""
    body = (
        view("x", "x_ptr", "1024")
        + view("y", "y_ptr", "1024")
        + view("o", "o_ptr", "1024")
        + "%at = arith.muli %pid, %c256 : index\n"
        + load("a", "x", "%at", "256", "1024")
        + load("b", "y", "%at", "256", "1024")
        + "%base = arith.index_cast %at : index to i32\n%n = arith.constant 1000 : i32\n"
        + "%base_t = tensor.splat %base : tensor<256xi32>\n"
        + "%n_t = tensor.splat %n : tensor<256xi32>\n"
        + generic(
            "lane",
            {"base_t": "tensor<256xi32>"},
            ["d0"],
            "256",
            "%i_ = linalg.index 0 : index\n%j_ = arith.index_cast %i_ : index to i32\n"
            "%k_ = arith.addi %base_t_, %j_ : i32\nlinalg.yield %k_ : i32",
            "i32",
        )
        + "%m = arith.cmpi slt, %lane, %n_t : tensor<256xi32>\n"
        + binary("s", "arith.addf", "a", "b", "256xf16")
        + "%z = arith.constant dense<0.0> : tensor<256xf16>\n"
        + "%w = arith.select %m, %s, %z : tensor<256xi1>, tensor<256xf16>\n"
        + store("w", "o", "%at", "256", "1024")
    )
    x, y = torch.randn(1024).half(), torch.randn(1024).half()
    expected = (x + y) * (torch.arange(1024) < 1000)
    return kernel("x_ptr y_ptr o_ptr", 4, body), {"x_ptr": x, "y_ptr": y, "o_ptr": 1024}, expected


def fused_softmax() -> tuple[str, dict, torch.Tensor]:
    body = (
        view("x", "x_ptr", "16x256")
        + view("o", "o_ptr", "16x256")
        + "%at = arith.muli %pid, %c4 : index\n"
        + load("h", "x", "%at, %c0", "4x256", "16x256")
        + widen("a", "h", "4x256")
        + reduce("top", "a", "0xFF800000", "4x256", 1, "arith.maximumf")
        + spread("tops", "top", 1, "4x256")
        + binary("d", "arith.subf", "a", "tops", "4x256xf32")
        + "%e = math.exp %d : tensor<4x256xf32>\n"
        + reduce("sum", "e", "0.0", "4x256", 1, "arith.addf")
        + spread("sums", "sum", 1, "4x256")
        + binary("q", "arith.divf", "e", "sums", "4x256xf32")
        + narrow("w", "q", "4x256")
        + store("w", "o", "%at, %c0", "4x256", "16x256")
    )
    x = torch.randn(16, 256).half()
    return kernel("x_ptr o_ptr", 4, body), {"x_ptr": x, "o_ptr": (16, 256)}, x.float().softmax(-1)


def matmul_with_masks() -> tuple[str, dict, torch.Tensor]:
    """A product whose last block of k is cut by a mask, accumulated in fp32, with a leaky ReLU."""
    body = (
        view("a", "a_ptr", "32x128")
        + view("b", "b_ptr", "128x128")
        + view("o", "o_ptr", "32x128")
        + "%row = arith.muli %pid, %c16 : index\n%limit = arith.constant 100 : i32\n"
        + fill("zero", "0.0", "16x128")
        + "%lim = tensor.splat %limit : tensor<16x32xi32>\n"
        + "%none = arith.constant dense<0.0> : tensor<16x32xf16>\n"
        + "%acc = scf.for %k = %c0 to %c128 step %c32 iter_args(%sum = %zero) -> "
        + "(tensor<16x128xf32>) {\n"
        + load("ab", "a", "%row, %k", "16x32", "32x128")
        + load("bb", "b", "%k, %c0", "32x128", "128x128")
        + "%ki = arith.index_cast %k : index to i32\n%kt = tensor.splat %ki : tensor<16x32xi32>\n"
        + generic(
            "ks",
            {"kt": "tensor<16x32xi32>"},
            ["d0, d1"],
            "16x32",
            "%i_ = linalg.index 1 : index\n%j_ = arith.index_cast %i_ : index to i32\n"
            "%s_ = arith.addi %kt_, %j_ : i32\nlinalg.yield %s_ : i32",
            "i32",
        )
        + "%m = arith.cmpi slt, %ks, %lim : tensor<16x32xi32>\n"
        + "%am = arith.select %m, %ab, %none : tensor<16x32xi1>, tensor<16x32xf16>\n"
        + product("next", "am 16x32xf16", "bb 32x128xf16", "sum 16x128xf32")
        + "scf.yield %next : tensor<16x128xf32>\n}\n"
        + fill("nil", "0.0", "16x128")
        + fill("slope", "0.01", "16x128")
        + "%p = arith.cmpf oge, %acc, %nil : tensor<16x128xf32>\n"
        + binary("l", "arith.mulf", "acc", "slope", "16x128xf32")
        + "%r = arith.select %p, %acc, %l : tensor<16x128xi1>, tensor<16x128xf32>\n"
        + narrow("w", "r", "16x128")
        + store("w", "o", "%row, %c0", "16x128", "32x128")
    )
    a, b = torch.randn(32, 128).half(), torch.randn(128, 128).half()
    c = a[:, :100].float() @ b[:100].float()
    expected = torch.nn.functional.leaky_relu(c, 0.01)
    return (
        kernel("a_ptr b_ptr o_ptr", 2, body),
        {"a_ptr": a, "b_ptr": b, "o_ptr": (32, 128)},
        expected,
    )


def layer_norm() -> tuple[str, dict, torch.Tensor]:
    body = (
        view("x", "x_ptr", "8x128")
        + view("g", "g_ptr", "128")
        + view("b", "b_ptr", "128")
        + view("o", "o_ptr", "8x128")
        + load("h", "x", "%pid, %c0", "1x128", "8x128")
        + load("gh", "g", "%c0", "128", "128")
        + load("bh", "b", "%c0", "128", "128")
        + "%row = tensor.collapse_shape %h [[0, 1]] : tensor<1x128xf16> into tensor<128xf16>\n"
        + widen("a", "row", "128")
        + widen("gf", "gh", "128")
        + widen("bf", "bh", "128")
        + "%a2 = tensor.expand_shape %a [[0, 1]] output_shape [1, 128] : tensor<128xf32> into "
        + "tensor<1x128xf32>\n"
        + reduce("s", "a2", "0.0", "1x128", 1, "arith.addf")
        + "%n = arith.constant dense<128.0> : tensor<1xf32>\n"
        + binary("mean", "arith.divf", "s", "n", "1xf32")
        + spread("means", "mean", 1, "1x128")
        + binary("d", "arith.subf", "a2", "means", "1x128xf32")
        + binary("dd", "arith.mulf", "d", "d", "1x128xf32")
        + reduce("v", "dd", "0.0", "1x128", 1, "arith.addf")
        + binary("var", "arith.divf", "v", "n", "1xf32")
        + "%eps = arith.constant dense<1.0e-5> : tensor<1xf32>\n"
        + binary("ve", "arith.addf", "var", "eps", "1xf32")
        + "%rs = math.rsqrt %ve : tensor<1xf32>\n"
        + generic(
            "y",
            {
                "d": "tensor<1x128xf32>",
                "rs": "tensor<1xf32>",
                "gf": "tensor<128xf32>",
                "bf": "tensor<128xf32>",
            },
            ["d0, d1", "d0", "d1", "d1"],
            "1x128",
            "%p_ = arith.mulf %d_, %rs_ : f32\n%q_ = arith.mulf %p_, %gf_ : f32\n"
            "%r_ = arith.addf %q_, %bf_ : f32\nlinalg.yield %r_ : f32",
            "f32",
        )
        + narrow("w", "y", "1x128")
        + store("w", "o", "%pid, %c0", "1x128", "8x128")
    )
    x, g, b = torch.randn(8, 128).half(), torch.randn(128).half(), torch.randn(128).half()
    expected = torch.nn.functional.layer_norm(x.float(), (128,), g.float(), b.float())
    arguments = {"x_ptr": x, "g_ptr": g, "b_ptr": b, "o_ptr": (8, 128)}
    return kernel("x_ptr g_ptr b_ptr o_ptr", 8, body), arguments, expected


def rms_norm() -> tuple[str, dict, torch.Tensor]:
    """Broadcasts as triton-shared writes them: maps with the constant 0."""
    body = (
        view("x", "x_ptr", "8x256")
        + view("g", "g_ptr", "1x256")
        + view("o", "o_ptr", "8x256")
        + "%at = arith.muli %pid, %c4 : index\n"
        + load("h", "x", "%at, %c0", "4x256", "8x256")
        + load("gh", "g", "%c0, %c0", "1x256", "1x256")
        + widen("a", "h", "4x256")
        + widen("gf", "gh", "1x256")
        + binary("aa", "arith.mulf", "a", "a", "4x256xf32")
        + reduce("s", "aa", "0.0", "4x256", 1, "arith.addf")
        + "%n = arith.constant dense<0.00390625> : tensor<4xf32>\n"
        + binary("mean", "arith.mulf", "s", "n", "4xf32")
        + "%m1 = tensor.expand_shape %mean [[0, 1]] output_shape [4, 1] : tensor<4xf32> into "
        + "tensor<4x1xf32>\n"
        + generic(
            "y",
            {"a": "tensor<4x256xf32>", "m1": "tensor<4x1xf32>", "gf": "tensor<1x256xf32>"},
            ["d0, d1", "d0, 0", "0, d1"],
            "4x256",
            "%eps_ = arith.constant 1.0e-6 : f32\n%e_ = arith.addf %m1_, %eps_ : f32\n"
            "%r_ = math.rsqrt %e_ : f32\n%p_ = arith.mulf %a_, %r_ : f32\n"
            "%q_ = arith.mulf %p_, %gf_ : f32\nlinalg.yield %q_ : f32",
            "f32",
        )
        + narrow("w", "y", "4x256")
        + store("w", "o", "%at, %c0", "4x256", "8x256")
    )
    x, g = torch.randn(8, 256).half(), torch.randn(1, 256).half()
    f = x.float()
    expected = f * torch.rsqrt((f * f).mean(-1, keepdim=True) + 1e-6) * g.float()
    return (
        kernel("x_ptr g_ptr o_ptr", 2, body),
        {"x_ptr": x, "g_ptr": g, "o_ptr": (8, 256)},
        expected,
    )


def flash_attention() -> tuple[str, dict, torch.Tensor]:
    """One head, blocks of 32 keys, a running maximum and sum."""
    v = "32x64"
    body = (
        view("q", "q_ptr", "64x64")
        + view("k", "k_ptr", "64x64")
        + view("v", "v_ptr", "64x64")
        + view("o", "o_ptr", "64x64")
        + "%row = arith.muli %pid, %c32 : index\n"
        + load("qb", "q", "%row, %c0", v, "64x64")
        + fill("m0", "-3.0e38", "32")
        + fill("l0", "0.0", "32")
        + fill("a0", "0.0", v)
        + fill("scale", "0.125", "32x32")
        + "%r:3 = scf.for %j = %c0 to %c64 step %c32 iter_args(%m = %m0, %l = %l0, %acc = %a0) -> "
        + "(tensor<32xf32>, tensor<32xf32>, tensor<32x64xf32>) {\n"
        + load("kb", "k", "%j, %c0", v, "64x64")
        + load("vb", "v", "%j, %c0", v, "64x64")
        + "%kt_e = tensor.empty() : tensor<64x32xf16>\n"
        + "%kt = linalg.transpose ins(%kb : tensor<32x64xf16>) outs(%kt_e : tensor<64x32xf16>) "
        + "permutation = [1, 0]\n"
        + fill("s0", "0.0", "32x32")
        + product("s", "qb 32x64xf16", "kt 64x32xf16", "s0 32x32xf32")
        + binary("ss", "arith.mulf", "s", "scale", "32x32xf32")
        + reduce("mj", "ss", "-3.0e38", "32x32", 1, "arith.maxnumf")
        + binary("mn", "arith.maxnumf", "m", "mj", "32xf32")
        + spread("mb", "mn", 1, "32x32")
        + binary("sd", "arith.subf", "ss", "mb", "32x32xf32")
        + "%p = math.exp %sd : tensor<32x32xf32>\n"
        + binary("md", "arith.subf", "m", "mn", "32xf32")
        + "%alpha = math.exp %md : tensor<32xf32>\n"
        + reduce("pl", "p", "0.0", "32x32", 1, "arith.addf")
        + binary("la", "arith.mulf", "l", "alpha", "32xf32")
        + binary("ln", "arith.addf", "la", "pl", "32xf32")
        + spread("ab", "alpha", 1, v)
        + binary("as", "arith.mulf", "acc", "ab", v + "xf32")
        + narrow("ph", "p", "32x32")
        + product("an", "ph 32x32xf16", "vb 32x64xf16", "as 32x64xf32")
        + "scf.yield %mn, %ln, %an : tensor<32xf32>, tensor<32xf32>, tensor<32x64xf32>\n}\n"
        + spread("lb", "r#1", 1, v)
        + binary("y", "arith.divf", "r#2", "lb", v + "xf32")
        + narrow("w", "y", v)
        + store("w", "o", "%row, %c0", v, "64x64")
    )
    q, k, v_ = (torch.randn(64, 64).half() for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v_.float())
    arguments = {"q_ptr": q, "k_ptr": k, "v_ptr": v_, "o_ptr": (64, 64)}
    return kernel("q_ptr k_ptr v_ptr o_ptr", 2, body), arguments, expected


def grouped_gemm() -> tuple[str, dict, torch.Tensor]:
    """Every compute tile multiplies its group by the weights of its own expert."""
    body = (
        view("a", "a_ptr", "4x16x64")
        + view("b", "b_ptr", "4x64x64")
        + view("o", "o_ptr", "4x16x64")
        + load("a3", "a", "%pid, %c0, %c0", "1x16x64", "4x16x64")
        + load("b3", "b", "%pid, %c0, %c0", "1x64x64", "4x64x64")
        + fill("z", "0.0", "1x16x64")
        + product("y", "a3 1x16x64xf16", "b3 1x64x64xf16", "z 1x16x64xf32", "batch_matmul")
        + narrow("w", "y", "1x16x64")
        + store("w", "o", "%pid, %c0, %c0", "1x16x64", "4x16x64")
    )
    a, b = torch.randn(4, 16, 64).half(), torch.randn(4, 64, 64).half()
    arguments = {"a_ptr": a, "b_ptr": b, "o_ptr": (4, 16, 64)}
    return kernel("a_ptr b_ptr o_ptr", 4, body), arguments, a.float() @ b.float()


def cross_entropy() -> tuple[str, dict, torch.Tensor]:
    """log(sum(exp(x - max))) + max - x[label]: the label's logit by comparing lanes."""
    body = (
        view("x", "x_ptr", "8x128")
        + view("t", "t_ptr", "8", "i32")
        + view("o", "o_ptr", "8", "f32")
        + load("h", "x", "%c0, %c0", "8x128", "8x128")
        + load("label", "t", "%c0", "8", "8", "i32")
        + widen("a", "h", "8x128")
        + reduce("m", "a", "0xFF800000", "8x128", 1, "arith.maximumf")
        + spread("mb", "m", 1, "8x128")
        + binary("d", "arith.subf", "a", "mb", "8x128xf32")
        + "%e = math.exp %d : tensor<8x128xf32>\n"
        + reduce("s", "e", "0.0", "8x128", 1, "arith.addf")
        + "%ls = math.log %s : tensor<8xf32>\n"
        + generic(
            "hit",
            {"label": "tensor<8xi32>", "d": "tensor<8x128xf32>"},
            ["d0", "d0, d1"],
            "8x128",
            "%i_ = linalg.index 1 : index\n%j_ = arith.index_cast %i_ : index to i32\n"
            "%is_ = arith.cmpi eq, %j_, %label_ : i32\n%n_ = arith.constant 0.0 : f32\n"
            "%v_ = arith.select %is_, %d_, %n_ : f32\nlinalg.yield %v_ : f32",
            "f32",
        )
        + reduce("picked", "hit", "0.0", "8x128", 1, "arith.addf")
        + binary("w", "arith.subf", "ls", "picked", "8xf32")
        + store("w", "o", "%c0", "8", "8", "f32")
    )
    x, t = torch.randn(8, 128).half(), torch.randint(0, 128, (8,), dtype=torch.int32)
    expected = torch.nn.functional.cross_entropy(x.float(), t.long(), reduction="none")
    out = torch.zeros(8)
    return kernel("x_ptr t_ptr o_ptr", 1, body), {"x_ptr": x, "t_ptr": t, "o_ptr": out}, expected


def cumsum() -> tuple[str, dict, torch.Tensor]:
    """An inclusive scan as log2(n) shifted sums: slices inserted into zeros."""
    body = view("x", "x_ptr", "4x64") + view("o", "o_ptr", "4x64", "f32")
    body += load("h", "x", "%pid, %c0", "1x64", "4x64") + widen("v0", "h", "1x64")
    for n, by in enumerate((1, 2, 4, 8, 16, 32)):
        rest = 64 - by
        body += (
            fill(f"z{n}", "0.0", "1x64")
            + f"%p{n} = tensor.extract_slice %v{n}[0, 0] [1, {rest}] [1, 1] : tensor<1x64xf32> to "
            f"tensor<1x{rest}xf32>\n"
            f"%q{n} = tensor.insert_slice %p{n} into %z{n}[0, {by}] [1, {rest}] [1, 1] : "
            f"tensor<1x{rest}xf32> into tensor<1x64xf32>\n"
            + binary(f"v{n + 1}", "arith.addf", f"v{n}", f"q{n}", "1x64xf32")
        )
    body += store("v6", "o", "%pid, %c0", "1x64", "4x64", "f32")
    x = torch.randn(4, 64).half()
    arguments = {"x_ptr": x, "o_ptr": torch.zeros(4, 64)}
    return kernel("x_ptr o_ptr", 4, body), arguments, x.float().cumsum(-1)


def transpose() -> tuple[str, dict, torch.Tensor]:
    body = (
        view("x", "x_ptr", "2x32x64")
        + view("o", "o_ptr", "64x2x32")
        + load("a", "x", "%c0, %c0, %c0", "2x32x64", "2x32x64")
        + "%e = tensor.empty() : tensor<64x2x32xf16>\n"
        + "%w = linalg.transpose ins(%a : tensor<2x32x64xf16>) outs(%e : tensor<64x2x32xf16>) "
        + "permutation = [2, 0, 1]\n"
        + store("w", "o", "%c0, %c0, %c0", "64x2x32", "64x2x32")
    )
    x = torch.randn(2, 32, 64).half()
    return kernel("x_ptr o_ptr", 1, body), {"x_ptr": x, "o_ptr": (64, 2, 32)}, x.permute(2, 0, 1)


def reduction(dim: int, op: str, start: str, of: Callable) -> Callable:
    def build() -> tuple[str, dict, torch.Tensor]:
        kept = "x".join(d for n, d in enumerate(("4", "8", "64")) if n != dim)
        at = "%c0, %c0"
        body = (
            view("x", "x_ptr", "4x8x64", "f32")
            + view("o", "o_ptr", kept, "f32")
            + load("a", "x", "%c0, %c0, %c0", "4x8x64", "4x8x64", "f32")
            + reduce("w", "a", start, "4x8x64", dim, op)
            + store("w", "o", at, kept, kept, "f32")
        )
        x = torch.randn(4, 8, 64)
        out = torch.zeros([int(d) for d in kept.split("x")])
        return kernel("x_ptr o_ptr", 1, body), {"x_ptr": x, "o_ptr": out}, of(x, dim)

    return build


def gather_rows() -> tuple[str, dict, torch.Tensor]:
    """An embedding: rows of a table by indices."""
    body = (
        view("t", "t_ptr", "64x128")
        + view("i", "i_ptr", "16", "i32")
        + view("o", "o_ptr", "16x128")
        + "%at = arith.muli %pid, %c8 : index\n"
        + "%g = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c) "
        + "%t[ind(%i[%r + %at]), (%c)] {variables_space_set = affine_set<(d0, d1) : (d0 >= 0, "
        + "d0 <= 7, d1 >= 0, d1 <= 127)>} : memref<64x128xf16>, memref<16xi32> -> "
        + "!ktdp.access_tile<8x128xindex>\n"
        + "%w = ktdp.load %g : !ktdp.access_tile<8x128xindex> -> tensor<8x128xf16>\n"
        + store("w", "o", "%at, %c0", "8x128", "16x128")
    )
    t, i = torch.randn(64, 128).half(), torch.randint(0, 64, (16,), dtype=torch.int32)
    return (
        kernel("t_ptr i_ptr o_ptr", 2, body),
        {"t_ptr": t, "i_ptr": i, "o_ptr": (16, 128)},
        t[i.long()],
    )


def int8_matmul() -> tuple[str, dict, torch.Tensor]:
    """Weights and activations of eight bits, sums of 32, scaled."""
    body = (
        view("a", "a_ptr", "16x64", "i8")
        + view("b", "b_ptr", "64x64", "i8")
        + view("o", "o_ptr", "16x64", "f32")
        + load("ab", "a", "%c0, %c0", "16x64", "16x64", "i8")
        + load("bb", "b", "%c0, %c0", "64x64", "64x64", "i8")
        + fill("z", "0", "16x64", "i32")
        + product("y", "ab 16x64xi8", "bb 64x64xi8", "z 16x64xi32")
        + "%f = arith.sitofp %y : tensor<16x64xi32> to tensor<16x64xf32>\n"
        + fill("scale", "0.01", "16x64")
        + binary("w", "arith.mulf", "f", "scale", "16x64xf32")
        + store("w", "o", "%c0, %c0", "16x64", "16x64", "f32")
    )
    a, b = (torch.randint(-128, 128, s, dtype=torch.int8) for s in ((16, 64), (64, 64)))
    arguments = {"a_ptr": a, "b_ptr": b, "o_ptr": torch.zeros(16, 64)}
    return kernel("a_ptr b_ptr o_ptr", 1, body), arguments, (a.int() @ b.int()).float() * 0.01


def dequantized_matmul() -> tuple[str, dict, torch.Tensor]:
    """Weights of eight bits widened in front of the product."""
    body = (
        view("a", "a_ptr", "16x64")
        + view("b", "b_ptr", "64x64", "i8")
        + view("s", "s_ptr", "64")
        + view("o", "o_ptr", "16x64")
        + load("ab", "a", "%c0, %c0", "16x64", "16x64")
        + load("bb", "b", "%c0, %c0", "64x64", "64x64", "i8")
        + load("sh", "s", "%c0", "64", "64")
        + "%bf = arith.sitofp %bb : tensor<64x64xi8> to tensor<64x64xf16>\n"
        + spread("sb", "sh", 0, "64x64", "f16")
        + binary("bs", "arith.mulf", "bf", "sb", "64x64xf16")
        + fill("z", "0.0", "16x64")
        + product("y", "ab 16x64xf16", "bs 64x64xf16", "z 16x64xf32")
        + narrow("w", "y", "16x64")
        + store("w", "o", "%c0, %c0", "16x64", "16x64")
    )
    a, s = torch.randn(16, 64).half(), (torch.rand(64) / 64).half()
    b = torch.randint(-128, 128, (64, 64), dtype=torch.int8)
    expected = a.float() @ (b.float() * s.float())
    arguments = {"a_ptr": a, "b_ptr": b, "s_ptr": s, "o_ptr": (16, 64)}
    return kernel("a_ptr b_ptr s_ptr o_ptr", 1, body), arguments, expected


def row_of_a_tile() -> tuple[str, dict, torch.Tensor]:
    """Slices that drop dims: a row of a tile, put into another place."""
    body = (
        view("x", "x_ptr", "4x64")
        + view("o", "o_ptr", "4x64")
        + load("a", "x", "%c0, %c0", "4x64", "4x64")
        + "%r = tensor.extract_slice %a[2, 0] [1, 64] [1, 1] : tensor<4x64xf16> to tensor<64xf16>\n"
        + "%d = arith.addf %r, %r : tensor<64xf16>\n"
        + "%w = tensor.insert_slice %d into %a[0, 0] [1, 64] [1, 1] : tensor<64xf16> into "
        + "tensor<4x64xf16>\n"
        + store("w", "o", "%c0, %c0", "4x64", "4x64")
    )
    x = torch.randn(4, 64).half()
    expected = x.clone()
    expected[0] = x[2] + x[2]
    return kernel("x_ptr o_ptr", 1, body), {"x_ptr": x, "o_ptr": (4, 64)}, expected


def parts_of_every_core() -> tuple[str, dict, torch.Tensor]:
    """Slices and elements at numbers that compute tiles and iterations have of their own: rope's
    angles, of which each compute tile takes a row, put where another row was."""
    rows = "8x64"
    body = (
        view("x", "x_ptr", rows, "f32")
        + view("o", "o_ptr", "4x8x64", "f32")
        + load("a", "x", "%c0, %c0", rows, rows, "f32")
        + f"%s, %k = math.sincos %a : tensor<{rows}xf32>\n"
        + "%other = arith.subi %c3, %pid : index\n"
        + f"%r = scf.for %i = %c0 to %c2 step %c1 iter_args(%t = %s) -> (tensor<{rows}xf32>) {{\n"
        + "%at = arith.addi %other, %i : index\n"
        + f"%row = tensor.extract_slice %k[%at, 0] [1, 64] [1, 1] : tensor<{rows}xf32> to "
        + "tensor<64xf32>\n"
        + f"%e = tensor.extract %a[%pid, %i] : tensor<{rows}xf32>\n"
        + "%by = tensor.splat %e : tensor<64xf32>\n"
        + "%turned = arith.mulf %row, %by : tensor<64xf32>\n"
        + "%to = arith.addi %pid, %i : index\n"
        + "%n = tensor.insert_slice %turned into %t[%to, 0] [1, 64] [1, 1] : tensor<64xf32> into "
        + f"tensor<{rows}xf32>\n"
        + f"scf.yield %n : tensor<{rows}xf32>\n}}\n"
        + f"%w = tensor.expand_shape %r [[0, 1], [2]] output_shape [1, 8, 64] : tensor<{rows}xf32> "
        + "into tensor<1x8x64xf32>\n"
        + store("w", "o", "%pid, %c0, %c0", "1x8x64", "4x8x64", "f32")
    )
    x = torch.randn(8, 64)
    expected = x.sin().repeat(4, 1, 1)
    for p in range(4):
        for i in range(2):
            expected[p, p + i] = x[3 - p + i].cos() * x[p, i]
    return (
        kernel("x_ptr o_ptr", 4, body),
        {"x_ptr": x, "o_ptr": torch.zeros(4, 8, 64)},
        expected,
    )


def matrix_vector() -> tuple[str, dict, torch.Tensor]:
    """linalg.matvec, vecmat and dot."""
    body = (
        view("a", "a_ptr", "64x64")
        + view("x", "x_ptr", "64")
        + view("o", "o_ptr", "64", "f32")
        + load("ab", "a", "%c0, %c0", "64x64", "64x64")
        + load("xb", "x", "%c0", "64", "64")
        + fill("z", "0.0", "64")
        + product("y", "ab 64x64xf16", "xb 64xf16", "z 64xf32", "matvec")
        + product("w", "xb 64xf16", "ab 64x64xf16", "y 64xf32", "vecmat")
        + store("w", "o", "%c0", "64", "64", "f32")
    )
    a, x = torch.randn(64, 64).half(), torch.randn(64).half()
    expected = a.float() @ x.float() + x.float() @ a.float()
    return (
        kernel("a_ptr x_ptr o_ptr", 1, body),
        {"a_ptr": a, "x_ptr": x, "o_ptr": torch.zeros(64)},
        expected,
    )


def transposed_factor() -> tuple[str, dict, torch.Tensor]:
    """linalg.matmul_transpose_b, as a product of queries and keys."""
    body = (
        view("a", "a_ptr", "16x64")
        + view("b", "b_ptr", "64x64")
        + view("o", "o_ptr", "16x64")
        + load("ab", "a", "%c0, %c0", "16x64", "16x64")
        + load("bb", "b", "%c0, %c0", "64x64", "64x64")
        + fill("z", "0.0", "16x64")
        + product("y", "ab 16x64xf16", "bb 64x64xf16", "z 16x64xf32", "matmul_transpose_b")
        + narrow("w", "y", "16x64")
        + store("w", "o", "%c0, %c0", "16x64", "16x64")
    )
    a, b = torch.randn(16, 64).half(), torch.randn(64, 64).half()
    return (
        kernel("a_ptr b_ptr o_ptr", 1, body),
        {"a_ptr": a, "b_ptr": b, "o_ptr": (16, 64)},
        a.float() @ b.float().T,
    )


def swiglu() -> tuple[str, dict, torch.Tensor]:
    """x * sigmoid(x) * y through a linalg.map and named elementwise operations."""
    t = "tensor<4x64xf32>"
    body = (
        view("x", "x_ptr", "8x64", "f32")
        + view("y", "y_ptr", "8x64", "f32")
        + view("o", "o_ptr", "8x64", "f32")
        + "%at = arith.muli %pid, %c4 : index\n"
        + load("a", "x", "%at, %c0", "4x64", "8x64", "f32")
        + load("b", "y", "%at, %c0", "4x64", "8x64", "f32")
        + fill("z", "0.0", "4x64")
        + f"%s = linalg.map ins(%a : {t}) outs(%z : {t}) (%v: f32) {{\n"
        + "%one = arith.constant 1.0 : f32\n%n = arith.negf %v : f32\n%e = math.exp %n : f32\n"
        + "%d = arith.addf %one, %e : f32\n%q = arith.divf %v, %d : f32\nlinalg.yield %q : f32\n}\n"
        + f"%w = linalg.mul ins(%s, %b : {t}, {t}) outs(%z : {t}) -> {t}\n"
        + store("w", "o", "%at, %c0", "4x64", "8x64", "f32")
    )
    x, y = torch.randn(8, 64), torch.randn(8, 64)
    expected = torch.nn.functional.silu(x) * y
    return (
        kernel("x_ptr y_ptr o_ptr", 2, body),
        {"x_ptr": x, "y_ptr": y, "o_ptr": torch.zeros(8, 64)},
        expected,
    )


SQUARE = "64x64xf32"
HANDED_ON = {
    "transposed": (
        f"%y = linalg.transpose ins(%a : tensor<{SQUARE}>) outs(%e : tensor<{SQUARE}>) "
        "permutation = [1, 0]\n",
        lambda x: x.T,
    ),
    "first_row": (
        f"%s = tensor.extract_slice %a[0, 0] [1, 64] [1, 1] : tensor<{SQUARE}> to tensor<64xf32>\n"
        f"%y = linalg.broadcast ins(%s : tensor<64xf32>) outs(%e : tensor<{SQUARE}>) "
        "dimensions = [0]\n",
        lambda x: x[:1].expand(64, 64),
    ),
    "second_column": (
        f"%s = tensor.extract_slice %a[0, 1] [64, 1] [1, 1] : tensor<{SQUARE}> to tensor<64xf32>\n"
        f"%y = linalg.broadcast ins(%s : tensor<64xf32>) outs(%e : tensor<{SQUARE}>) "
        "dimensions = [1]\n",
        lambda x: x[:, 1:2].expand(64, 64),
    ),
}


def handed_on(body: str, of: Callable) -> Callable:
    """A loop whose next iteration gets the bytes of this one's argument in another order."""

    def build() -> tuple[str, dict, torch.Tensor]:
        text = (
            view("x", "x_ptr", "64x64", "f32")
            + view("o", "o_ptr", "64x64", "f32")
            + load("v", "x", "%c0, %c0", "64x64", "64x64", "f32")
            + f"%e = tensor.empty() : tensor<{SQUARE}>\n"
            + f"%w = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %v) -> (tensor<{SQUARE}>) {{\n"
            + f"{body}scf.yield %y : tensor<{SQUARE}>\n}}\n"
            + store("w", "o", "%c0, %c0", "64x64", "64x64", "f32")
        )
        x = torch.randn(64, 64)
        arguments = {"x_ptr": x, "o_ptr": torch.zeros(64, 64)}
        return kernel("x_ptr o_ptr", 1, text), arguments, of(x)

    return build


KERNELS = {
    f.__name__: f
    for f in (
        vector_add,
        fused_softmax,
        matmul_with_masks,
        layer_norm,
        rms_norm,
        flash_attention,
        grouped_gemm,
        cross_entropy,
        cumsum,
        transpose,
        gather_rows,
        int8_matmul,
        dequantized_matmul,
        row_of_a_tile,
        parts_of_every_core,
        matrix_vector,
        transposed_factor,
        swiglu,
    )
} | {
    f"{name}_{dim}": reduction(dim, op, start, of)
    for name, op, start, of in (
        ("sum", "arith.addf", "0.0", lambda x, d: x.sum(d)),
        ("max", "arith.maximumf", "0xFF800000", lambda x, d: x.amax(d)),
        ("prod", "arith.mulf", "1.0", lambda x, d: x.prod(d)),
    )
    for dim in range(3)
}
KERNELS |= {f"handed_on_{name}": handed_on(*case) for name, case in HANDED_ON.items()}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name: str) -> None:
    torch.manual_seed(0)
    text, arguments, expected = KERNELS[name]()
    kernel_ = ktir.loads(text, f"{name}.mlir")
    assert str(ktir.loads(str(kernel_))) == str(kernel_)
    outputs = []
    for interpret in (True, False):
        given = {
            k: v.clone() if isinstance(v, torch.Tensor) else torch.zeros(v).half()
            for k, v in arguments.items()
        }
        kernel_.run(interpret=interpret, **given)
        outputs.append(given["o_ptr"])
    assert torch.equal(*outputs)
    scale = float(expected.abs().max())
    torch.testing.assert_close(outputs[0].float(), expected.float(), atol=4e-3 * scale, rtol=1e-2)
