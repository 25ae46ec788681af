# SPDX-License-Identifier: Apache-2.0
"""KTIR operations on elements, reductions and regions: the card against the interpreter, to the
byte, and both against PyTorch where it has the same."""

import re

import pytest
import torch
import torch_spyre
import torch_spyre.ktir as ktir

ROWS, COLUMNS = 6, 40
TYPES = {"f16": torch.float16, "f32": torch.float32, "i32": torch.int32, "i64": torch.int64}
SAME = "affine_map<(i, j) -> (i, j)>"


def _kernel(
    sizes: dict[str, tuple[str, tuple[int, ...]]], body: str, out: str, tensors: str = ""
) -> ktir.Kernel:
    """Loads %x of each input x, computes %r by `body`, stores it to the memory `out`. The types of
    all tensors have the sizes `tensors` when it is stated."""
    lines = []
    for name, (element, shape) in sizes.items():
        by = "x".join(map(str, shape))
        strides = [1] if len(shape) == 1 else [shape[1], 1]
        lines += [
            f"%{name}m = ktdp.construct_memory_view %{name}p, sizes: {list(shape)}, strides: "
            f"{strides} {{memory_space = #ktdp.memory_space<global>}} : memref<{by}x{element}>",
            f"%{name}t = ktdp.construct_access_tile %{name}m[{', '.join(['%c0'] * len(shape))}] "
            f": memref<{by}x{element}> -> !ktdp.access_tile<{by}xindex>",
        ]
        if name != out:
            lines.append(
                f"%{name} = ktdp.load %{name}t : !ktdp.access_tile<{by}xindex> "
                f"-> tensor<{by}x{element}>"
            )
    element, shape = sizes[out]
    by = "x".join(map(str, shape))
    store = f"ktdp.store %r, %{out}t : tensor<{by}x{element}>, !ktdp.access_tile<{by}xindex>"
    arguments = ", ".join(f"%{name}p: index" for name in sizes)
    text = "\n".join(["%c0 = arith.constant 0 : index", *lines, body, store, "return"])
    if tensors:
        text = re.sub(r"tensor<[\dx]+x(?=[fi])", f"tensor<{tensors}x", text)
    return ktir.loads(
        f"module {{ func.func @f({arguments}) attributes {{grid = [1]}} {{\n{text}\n}} }}"
    )


def _both(kernel: ktir.Kernel, out: str, **inputs: torch.Tensor) -> torch.Tensor:
    (shape,) = (p.shape for p in kernel.functions[0].parameters if p.name == f"{out}p")
    (dtype,) = (p.dtype for p in kernel.functions[0].parameters if p.name == f"{out}p")
    card, definition = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)
    arguments = {f"{name}p": value for name, value in inputs.items()}
    kernel.run(**arguments, **{f"{out}p": card})
    kernel.run(**arguments, **{f"{out}p": definition}, interpret=True)
    assert torch.equal(card.view(torch.uint8), definition.view(torch.uint8))
    return card


def _random(element: str, *shape: int) -> torch.Tensor:
    if element[0] == "f":
        return torch.randn(*shape).to(TYPES[element])
    return torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int64).to(TYPES[element])


SIGNED = ["addi", "subi", "muli", "divsi", "remsi", "ceildivsi", "floordivsi", "maxsi", "minsi"]
UNSIGNED = ["divui", "remui", "ceildivui", "maxui", "minui", "andi", "ori", "xori"]


@pytest.mark.parametrize("op", SIGNED + UNSIGNED)
def test_integers(op: str) -> None:
    sizes = dict.fromkeys("aby", ("i32", (ROWS, COLUMNS)))
    kernel = _kernel(sizes, f"%r = arith.{op} %a, %b : tensor<{ROWS}x{COLUMNS}xi32>", "y")
    a, b = _random("i32", ROWS, COLUMNS), _random("i32", ROWS, COLUMNS)
    b[b == 0] = 1
    b[::2] = b[::2] % 7 + 1
    _both(kernel, "y", a=a, b=b)


@pytest.mark.parametrize("op", ["shli", "shrsi", "shrui"])
def test_shifts(op: str) -> None:
    sizes = dict.fromkeys("aby", ("i32", (ROWS, COLUMNS)))
    kernel = _kernel(sizes, f"%r = arith.{op} %a, %b : tensor<{ROWS}x{COLUMNS}xi32>", "y")
    _both(kernel, "y", a=_random("i32", ROWS, COLUMNS), b=_random("i32", ROWS, COLUMNS) % 32)


RELATIONS = {
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}
FLOAT_PREDICATES = [u + r for u in "ou" for r in RELATIONS] + ["ord", "uno"]


@pytest.mark.parametrize("predicate", FLOAT_PREDICATES)
def test_comparisons_of_what_is_no_number(predicate: str) -> None:
    values = torch.tensor([0.0, -0.0, 1.0, -2.5, torch.inf, -torch.inf, torch.nan])
    pairs = torch.cartesian_prod(values, values)
    a, b = (pairs[:, n].contiguous().view(1, -1) for n in range(2))
    by = f"1x{a.numel()}"
    body = f"""%c = arith.cmpf {predicate}, %a, %b : tensor<{by}xf32>
      %r = arith.uitofp %c : tensor<{by}xi1> to tensor<{by}xf32>"""
    kernel = _kernel(dict.fromkeys("aby", ("f32", (1, a.numel()))), body, "y")
    unordered = a.isnan() | b.isnan()
    holds = RELATIONS[predicate[1:]](a, b) if predicate[1:] in RELATIONS else ~unordered
    expected = torch.where(
        unordered, torch.tensor(predicate[0] == "u"), holds & (predicate != "uno")
    )
    assert torch.equal(_both(kernel, "y", a=a, b=b) == 1, expected)


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sge", "ult", "uge"])
def test_comparisons(predicate: str) -> None:
    by = f"{ROWS}x{COLUMNS}"
    body = f"""%c = arith.cmpi {predicate}, %a, %b : tensor<{by}xi32>
      %r = arith.select %c, %a, %b : tensor<{by}xi1>, tensor<{by}xi32>"""
    kernel = _kernel(dict.fromkeys("aby", ("i32", (ROWS, COLUMNS))), body, "y")
    _both(kernel, "y", a=_random("i32", ROWS, COLUMNS), b=_random("i32", ROWS, COLUMNS))


@pytest.mark.parametrize(
    "op",
    ["fptosi f32 i32", "fptoui f32 i32", "uitofp i32 f16", "sitofp i32 f32", "extsi i32 i64",
     "extui i32 i64", "trunci i64 i32", "bitcast f32 i32", "bitcast i32 f32"],
)  # fmt: skip
def test_casts(op: str) -> None:
    name, source, target = op.split()
    by = f"{ROWS}x{COLUMNS}"
    body = f"%r = arith.{name} %a : tensor<{by}x{source}> to tensor<{by}x{target}>"
    sizes = {"a": (source, (ROWS, COLUMNS)), "y": (target, (ROWS, COLUMNS))}
    a = _random(source, ROWS, COLUMNS)
    _both(_kernel(sizes, body, "y"), "y", a=a.abs() * 100 if name == "fptoui" else a)


@pytest.mark.parametrize("sign", ["si", "ui"])
def test_truths_become_numbers(sign: str) -> None:
    by = f"{ROWS}x{COLUMNS}"
    body = f"""%c = arith.cmpf ogt, %a, %b : tensor<{by}xf16>
      %d = arith.ext{sign} %c : tensor<{by}xi1> to tensor<{by}xi32>
      %e = arith.constant dense<123456789> : tensor<{by}xi32>
      %r = arith.subi %e, %d : tensor<{by}xi32>"""
    sizes = {"a": ("f16", (ROWS, COLUMNS)), "b": ("f16", (ROWS, COLUMNS)),
             "y": ("i32", (ROWS, COLUMNS))}  # fmt: skip
    a, b = _random("f16", ROWS, COLUMNS), _random("f16", ROWS, COLUMNS)
    y = _both(_kernel(sizes, body, "y"), "y", a=a, b=b)
    step = 1 if sign == "si" else -1
    assert torch.equal(y, (123456789 + step * (a > b).int()).int())


@pytest.mark.parametrize("dims", ["0", "1"])
@pytest.mark.parametrize("op", ["mulf f16", "mulf f32", "addi i32", "muli i32", "maxsi i32",
                                "minui i32", "xori i32", "andi i32"])  # fmt: skip
def test_reductions_of_all_kinds(op: str, dims: str) -> None:
    name, element = op.split()
    kept = (ROWS, COLUMNS)[1 - int(dims)]
    body = f"""%r = linalg.reduce {{ arith.{name} }} ins(%a : tensor<{ROWS}x{COLUMNS}x{element}>)
      outs(%b : tensor<{kept}x{element}>) dimensions = [{dims}]"""
    sizes = {"a": (element, (ROWS, COLUMNS)), "b": (element, (kept,)), "y": (element, (kept,))}
    a, b = _random(element, ROWS, COLUMNS), _random(element, kept)
    _both(_kernel(sizes, body, "y"), "y", a=a, b=b)


def test_a_product_as_a_region() -> None:
    body = """%z = arith.constant dense<0.0> : tensor<6x20xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
        affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
        iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%a, %b : tensor<6x40xf16>, tensor<40x20xf16>) outs(%z : tensor<6x20xf32>) {
      ^bb0(%x: f16, %w: f16, %o: f32):
        %xf = arith.extf %x : f16 to f32
        %wf = arith.extf %w : f16 to f32
        %p = arith.mulf %xf, %wf : f32
        %s = arith.addf %o, %p : f32
        linalg.yield %s : f32
      } -> tensor<6x20xf32>"""
    sizes = {"a": ("f16", (6, 40)), "b": ("f16", (40, 20)), "y": ("f32", (6, 20))}
    a, b = _random("f16", 6, 40), _random("f16", 40, 20)
    y = _both(_kernel(sizes, body, "y"), "y", a=a, b=b)
    torch.testing.assert_close(y, a.float() @ b.float(), atol=5e-2, rtol=1e-2)


def test_the_place_of_the_largest() -> None:
    # linalg.index of the dim that is reduced, over two loops of the card.
    body = """%z = arith.constant dense<-1> : tensor<6xi32>
      %n = arith.constant dense<-6.0e4> : tensor<6xf16>
      %m = linalg.reduce { arith.maximumf } ins(%a : tensor<6x40xf16>) outs(%n : tensor<6xf16>)
        dimensions = [1]
      %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
        affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
        iterator_types = ["parallel", "reduction"]}
        ins(%a, %m : tensor<6x40xf16>, tensor<6xf16>) outs(%z : tensor<6xi32>) {
      ^bb0(%x: f16, %w: f16, %o: i32):
        %j = linalg.index 1 : index
        %k = arith.index_cast %j : index to i32
        %c = arith.cmpf oeq, %x, %w : f16
        %s = arith.select %c, %k, %o : i32
        linalg.yield %s : i32
      } -> tensor<6xi32>"""
    a = torch.stack([torch.randperm(40) for _ in range(6)]).half()
    kernel = _kernel({"a": ("f16", (6, 40)), "y": ("i32", (6,))}, body, "y")
    assert torch.equal(_both(kernel, "y", a=a), a.argmax(1).int())


LARGE = (1100, 600)  # float16: more than half of LX


def test_tensors_larger_than_lx_are_made_in_slices() -> None:
    body = """%t = arith.constant dense<2.0> : tensor<1100x600xf16>
      %p = arith.mulf %a, %b : tensor<1100x600xf16>
      %s = arith.addf %p, %a : tensor<1100x600xf16>
      %d = arith.mulf %s, %t : tensor<1100x600xf16>
      %r = arith.extf %d : tensor<1100x600xf16> to tensor<1100x600xf32>"""
    kernel = _kernel({"a": ("f16", LARGE), "b": ("f16", LARGE), "y": ("f32", LARGE)}, body, "y")
    _both(kernel, "y", a=_random("f16", *LARGE), b=_random("f16", *LARGE))


@pytest.mark.parametrize("unknown", ["?x600", "1100x?", "?x?"])
def test_slices_of_a_tensor_whose_type_leaves_sizes_open(unknown: str) -> None:
    # Sizes are those of the tile that was loaded, and those of two tensors agree.
    sizes = dict.fromkeys("aby", ("f16", LARGE))
    kernel = _kernel(sizes, "%r = arith.subf %a, %b : tensor<1100x600xf16>", "y", unknown)
    _both(kernel, "y", a=_random("f16", *LARGE), b=_random("f16", *LARGE))


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("ins", ["%a, %b", "%b, %a"])
def test_factors_of_open_types_that_do_not_fit_fault(ins: str, interpret: bool) -> None:
    sizes = {"a": ("f16", (64, 64)), "b": ("f16", (32, 64)), "y": ("f16", (64, 64))}
    one = "tensor<1x64xf16>"
    body = f"%r = linalg.matmul ins({ins} : {one}, {one}) outs(%a : {one}) -> {one}"
    kernel = _kernel(sizes, body, "y", "?x64")
    arrays = {f"{name}p": torch.zeros(size).half() for name, (_, size) in sizes.items()}
    with pytest.raises(RuntimeError, match="matmul.* factors "):
        kernel.run(**arrays, interpret=interpret)


@pytest.mark.parametrize("rows", [40, 1100])
@pytest.mark.parametrize("interpret", [False, True])
def test_tensors_of_open_types_that_differ_in_size_fault(rows: int, interpret: bool) -> None:
    sizes = {"a": ("f16", (rows, 600)), "b": ("f16", (rows - 1, 600)), "y": ("f16", (rows, 600))}
    kernel = _kernel(sizes, "%r = arith.addf %a, %b : tensor<1x600xf16>", "y", "?x600")
    arrays = {f"{name}p": torch.zeros(size).half() for name, (_, size) in sizes.items()}
    with pytest.raises(RuntimeError, match="addf.* tensors "):
        kernel.run(**arrays, interpret=interpret)


SHRINKS = """%c1 = arith.constant 1 : index
%c2 = arith.constant 2 : index
%open = tensor.cast %a : tensor<4x64xf32> to tensor<?x64xf32>
%last = scf.for %i = %c0 to %c2 step %c1 iter_args(%t = %open) -> (tensor<?x64xf32>) {
  %half = tensor.extract_slice %a[2, 0] [2, 64] [1, 1] : tensor<4x64xf32> to tensor<2x64xf32>
  %next = tensor.cast %half : tensor<2x64xf32> to tensor<?x64xf32>
  scf.yield %next : tensor<?x64xf32>
}
%r = tensor.cast %last : tensor<?x64xf32> to tensor<2x64xf32>"""


def test_a_tensor_that_shrinks_in_a_loop() -> None:
    kernel = _kernel({"a": ("f32", (4, 64)), "y": ("f32", (2, 64))}, SHRINKS, "y")
    a, y = torch.randn(4, 64), torch.zeros(2, 64)
    kernel.run(ap=a, yp=y, interpret=True)
    assert torch.equal(y, a[2:])
    with pytest.raises(torch_spyre.Unsupported, match="scf.yield: a tensor whose sizes change"):
        kernel.run(ap=a, yp=y)


def test_a_large_tensor_over_its_own_memory_is_refused() -> None:
    text = str(_kernel({"a": ("f16", LARGE), "y": ("f16", LARGE)},
                       "%r = arith.negf %a : tensor<1100x600xf16>", "y"))  # fmt: skip
    kernel = ktir.loads(text.replace("%yp, sizes", "%ap, sizes"))
    a = _random("f16", *LARGE)
    with pytest.raises(RuntimeError, match="larger than LX goes where others of its elements come"):
        kernel.run(ap=a, yp=0)


PAGED = """module { func.func @paged(%x: index, %i: index, %y: index) attributes {grid = [1]} {
  %c0 = arith.constant 0 : index
  %xm = ktdp.construct_memory_view %x, sizes: [20, 8, 64], strides: [512, 64, 1]
    {memory_space = #ktdp.memory_space<global>} : memref<20x8x64xf16>
  %im = ktdp.construct_memory_view %i, sizes: [2, 5], strides: [5, 1]
    {memory_space = #ktdp.memory_space<global>} : memref<2x5xi32>
  %ym = ktdp.construct_memory_view %y, sizes: [2, 36, 64], strides: [2304, 64, 1]
    {memory_space = #ktdp.memory_space<global>} : memref<2x36x64xf16>
  %xt = ktdp.construct_indirect_access_tile intermediate_variables(%b, %t, %d)
    %xm[ind(%im[%b, %t floordiv 8]), (%t mod 8), (%d)] {
      variables_space_set = affine_set<(b, t, d) : (b >= 0, -b + 1 >= 0, t >= 0, -t + 35 >= 0,
                                                    d >= 0, -d + 63 >= 0)>,
      variables_space_order = affine_map<(b, t, d) -> (b, t, d)>}
    : memref<20x8x64xf16>, memref<2x5xi32> -> !ktdp.access_tile<2x36x64xindex>
  %v = ktdp.load %xt : !ktdp.access_tile<2x36x64xindex> -> tensor<2x36x64xf16>
  %n = arith.negf %v : tensor<2x36x64xf16>
  %yt = ktdp.construct_access_tile %ym[%c0, %c0, %c0]
    : memref<2x36x64xf16> -> !ktdp.access_tile<2x36x64xindex>
  ktdp.store %n, %yt : tensor<2x36x64xf16>, !ktdp.access_tile<2x36x64xindex>
  return
} }"""


@pytest.mark.parametrize("interpret", [False, True])
def test_pages(interpret: bool) -> None:
    # A quotient of a variable is one number in each of the blocks that the tile is loaded in.
    x, y = _random("f16", 20, 8, 64), torch.zeros(2, 36, 64).half()
    pages = torch.stack([torch.randperm(20)[:5] for _ in range(2)]).int()
    ktir.loads(PAGED).run(x=x, i=pages, y=y, interpret=interpret)
    wanted = -x[pages.long()].reshape(2, 40, 64)[:, :36]
    torch.testing.assert_close(y, wanted, atol=4e-3, rtol=2e-3)


def _away(x: torch.Tensor) -> torch.Tensor:
    return torch.trunc(x + torch.copysign(torch.full_like(x, 0.5), x))


# Functions of one float, and where they are asked.
FUNCTIONS = {
    "math.exp": (torch.exp, -4, 4),
    "math.exp2": (torch.exp2, -4, 4),
    "math.expm1": (torch.expm1, -2, 2),
    "math.sqrt": (torch.sqrt, 0, 9),
    "math.cbrt": (lambda x: torch.sign(x) * x.abs() ** (1 / 3), -9, 9),
    "math.rsqrt": (torch.rsqrt, 0.1, 9),
    "math.log": (torch.log, 0.1, 9),
    "math.log2": (torch.log2, 0.1, 9),
    "math.log10": (torch.log10, 0.1, 9),
    "math.log1p": (torch.log1p, -0.5, 9),
    "math.tanh": (torch.tanh, -3, 3),
    "math.sin": (torch.sin, -3, 3),
    "math.cos": (torch.cos, -3, 3),
    "math.tan": (torch.tan, -1, 1),
    "math.sinh": (torch.sinh, -3, 3),
    "math.cosh": (torch.cosh, -3, 3),
    "math.asin": (torch.asin, -1, 1),
    "math.acos": (torch.acos, -1, 1),
    "math.atan": (torch.atan, -3, 3),
    "math.asinh": (torch.asinh, -3, 3),
    "math.acosh": (torch.acosh, 1, 5),
    "math.atanh": (torch.atanh, -0.9, 0.9),
    "math.erf": (torch.erf, -3, 3),
    "math.erfc": (torch.erfc, -2, 2),
    "math.absf": (torch.abs, -3, 3),
    "math.ceil": (torch.ceil, -3, 3),
    "math.floor": (torch.floor, -3, 3),
    "math.trunc": (torch.trunc, -3, 3),
    "math.roundeven": (torch.round, -3, 3),
    "math.round": (_away, -3, 3),
    "arith.negf": (torch.neg, -3, 3),
}


@pytest.mark.parametrize("element", ["f16", "f32"])
def test_functions(element: str) -> None:
    """Each on a row of its own, halves among the numbers."""
    rows = len(FUNCTIONS)
    x = torch.stack([torch.linspace(low, high, 49) for _, low, high in FUNCTIONS.values()])
    x = torch.nn.functional.pad(x, (0, 15), value=1.0).to(TYPES[element])
    lines = []
    for row, op in enumerate(FUNCTIONS):
        lines.append(
            f"%i{row} = tensor.extract_slice %x[{row}, 0] [1, 64] [1, 1] : "
            f"tensor<{rows}x64x{element}> to tensor<64x{element}>\n"
            f"%o{row} = {op} %i{row} : tensor<64x{element}>\n"
            f"%r{row + 1} = tensor.insert_slice %o{row} into %r{row}[{row}, 0] [1, 64] [1, 1] : "
            f"tensor<64x{element}> into tensor<{rows}x64x{element}>"
        )
    body = f"%r0 = tensor.empty() : tensor<{rows}x64x{element}>\n" + "\n".join(lines)
    body = body.replace(f"%r{rows} ", "%r ")
    kernel = _kernel({"x": (element, (rows, 64)), "o": (element, (rows, 64))}, body, "o")
    found = _both(kernel, "o", x=x)
    for row, (function, _, _) in enumerate(FUNCTIONS.values()):
        expected = function(x[row].float())
        tolerance = 4e-3 if element == "f16" else 2e-6
        torch.testing.assert_close(found[row].float(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("element", ["f16", "f32"])
def test_three_operands(element: str) -> None:
    """A product and a sum that are rounded once; and bounds, of which the lower one wins."""
    by = f"tensor<{ROWS}x{COLUMNS}x{element}>"
    body = f"""%f = math.fma %a, %b, %c : {by}
      %r = math.clampf %f to [%b, %c] : {by}"""
    sizes = dict.fromkeys("abcy", (element, (ROWS, COLUMNS)))
    a, b, c = (_random(element, ROWS, COLUMNS) for _ in range(3))
    a[0], b[0] = 1 + 2.0**-9, 1 - 2.0**-9
    c[0] = -1
    found = _both(_kernel(sizes, body, "y"), "y", a=a, b=b, c=c)
    exact = (a.double() * b.double() + c.double()).to(TYPES[element])
    expected = torch.maximum(torch.minimum(exact, c), b)
    near = 1e-2 if element == "f16" else 0  # of inputs that the card rounds
    torch.testing.assert_close(found, expected, atol=near, rtol=near)
    found = _both(_kernel(sizes, f"%r = math.fma %a, %b, %c : {by}", "y"), "y", a=a, b=b, c=c)
    assert (found[0] == -(2.0**-18)).all()


def test_maps_of_operations_by_name() -> None:
    by = f"tensor<{ROWS}x{COLUMNS}xf32>"
    body = f"""%f = linalg.map {{ math.fma }} ins(%a, %b, %c : {by}, {by}, {by}) outs(%a : {by})
      %r = linalg.map {{ math.round }} ins(%f : {by}) outs(%a : {by})"""
    a, b, c = (_random("f32", ROWS, COLUMNS) * 5 for _ in range(3))
    sizes = dict.fromkeys("abcy", ("f32", (ROWS, COLUMNS)))
    found = _both(_kernel(sizes, body, "y"), "y", a=a, b=b, c=c)
    torch.testing.assert_close(found, _away((a.double() * b + c).float()), atol=0, rtol=0)


def test_the_lowest_bit() -> None:
    by = f"tensor<{ROWS}x{COLUMNS}"
    body = f"""%t = arith.trunci %a : {by}xi32> to {by}xi1>
      %r = arith.select %t, %a, %b : {by}xi1>, {by}xi32>"""
    a, b = _random("i32", ROWS, COLUMNS), _random("i32", ROWS, COLUMNS)
    sizes = dict.fromkeys("aby", ("i32", (ROWS, COLUMNS)))
    found = _both(_kernel(sizes, body, "y"), "y", a=a, b=b)
    assert torch.equal(found, torch.where(a % 2 == 1, a, b))


@pytest.mark.parametrize("element", ["f16", "f32"])
def test_classes_of_floats(element: str) -> None:
    tests = {"isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite}
    inf, nan, tiny = float("inf"), float("nan"), 2.0**-140 if element == "f32" else 2.0**-18
    x = torch.tensor([0.0, -0.0, 1.5, -inf, inf, tiny, -tiny, 6e4, nan]).to(TYPES[element])
    for name in (*tests, "isnormal"):
        body = f"""%c = math.{name} %a : tensor<9x{element}>
          %r = arith.extui %c : tensor<9xi1> to tensor<9xi32>"""
        found = _both(_kernel({"a": (element, (9,)), "y": ("i32", (9,))}, body, "y"), "y", a=x)
        if name in tests and element == "f32":  # the card's 16 bits have one code for the two
            assert torch.equal(found.bool(), tests[name](x))
        if name == "isnormal":
            normal = [0, 0, 1, 0, 0, element == "f16", element == "f16", 1, 0]
            assert found.tolist() == normal


@pytest.mark.parametrize("element", ["i8", "i16", "i32"])
def test_bits_of_integers(element: str) -> None:
    width, dtype = int(element[1:]), getattr(torch, f"int{element[1:]}")
    edges = [0, 1, -1, 2 ** (width - 1) - 1, -(2 ** (width - 1)), 12, -12]
    a = torch.cat([torch.tensor(edges), torch.randint(-(2**31), 2**31, (57,)) >> (32 - width)])
    bits = [f"{int(x) % 2**width:0{width}b}" for x in a]
    wanted = {
        "ctpop": [b.count("1") for b in bits],
        "ctlz": [len(b) - len(b.lstrip("0")) for b in bits],
        "cttz": [len(b) - len(b.rstrip("0")) for b in bits],
    }
    sizes = dict.fromkeys("ay", (element, (64,)))
    for name, expected in wanted.items():
        kernel = _kernel(sizes, f"%r = math.{name} %a : tensor<64x{element}>", "y")
        assert _both(kernel, "y", a=a.to(dtype)).tolist() == expected


def test_powers() -> None:
    """Of integers, negative powers too, and integer powers of floats."""
    a = torch.tensor([0, 0, 1, 1, -1, -1, -1, 2, -3, 3, 7, 46341]).int()
    n = torch.tensor([0, 5, -3, 2**31 - 1, -3, -4, 2**31 - 1, 31, 19, -1, 12, 2]).int()
    kernel = _kernel(
        dict.fromkeys("any", ("i32", (12,))), "%r = math.ipowi %a, %n : tensor<12xi32>", "y"
    )
    found = _both(kernel, "y", a=a, n=n)
    for base, exponent, power in zip(a.tolist(), n.tolist(), found.tolist(), strict=True):
        known = exponent >= 0 or abs(base) == 1
        assert power % 2**32 == (pow(base, abs(exponent), 2**32) if known else 0)
    x = torch.linspace(-2, 2, 12)
    sizes = {"x": ("f32", (12,)), "n": ("i32", (12,)), "y": ("f32", (12,))}
    kernel = _kernel(sizes, "%r = math.fpowi %x, %n : tensor<12xf32>, tensor<12xi32>", "y")
    n = torch.arange(-6, 6).int()
    torch.testing.assert_close(_both(kernel, "y", x=x, n=n), x**n, rtol=1e-6, atol=0)
    text = str(kernel).replace("tensor<12xf32>, tensor<12xi32>", "tensor<12xf32>, tensor<12xf32>")
    with pytest.raises(RuntimeError, match="tensor<12xf32>.* integers|has type|expected"):
        ktir.loads(text)
