# SPDX-License-Identifier: Apache-2.0
"""torch_spyre.ktir: kernels on tensors of the host and of the device."""

import contextlib
from pathlib import Path

import pytest
import torch
import torch_spyre.ktir as ktir

GOLDEN = Path(__file__).parent.parent / "golden" / "ktir"


@pytest.fixture
def scale() -> ktir.Kernel:
    return ktir.load(GOLDEN / "scale.mlir")


def test_functions_and_parameters(scale: ktir.Kernel) -> None:
    (function,) = scale.functions
    assert function.name == "scale" and function.grid == (4,)
    assert [p.name for p in function.parameters] == ["x", "y", "rows", "factor"]
    x, _, rows, factor = function.parameters
    assert x.is_memory and x.dtype == torch.float16 and x.shape == (16, 256)
    assert not rows.is_memory and factor.dtype == torch.float16
    assert str(ktir.loads(str(scale))) == str(scale)


@pytest.mark.parametrize("device", ["cpu", "spyre"])
@pytest.mark.parametrize("interpret", [False, True])
def test_run(scale: ktir.Kernel, device: str, interpret: bool) -> None:
    x = torch.randn(16, 256, dtype=torch.float16).to(device)
    y = torch.zeros(16, 256, dtype=torch.float16).to(device)
    scale.run(x=x, y=y, rows=16, factor=1.5, interpret=interpret)
    torch.testing.assert_close(y.cpu(), x.cpu() * 1.5, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("interpret", [False, True])
def test_only_what_is_stored_changes(scale: ktir.Kernel, interpret: bool) -> None:
    # 1 + 2^-10 has more bits than the card's format: a round trip would round it.
    x = torch.full((16, 256), 1 + 2**-10, dtype=torch.float16)
    y = torch.full((16, 256), 3.0, dtype=torch.float16)
    scale.run(x=x, y=y, rows=16, factor=1.0, interpret=interpret)
    assert bool((x == 1 + 2**-10).all()) and bool((y < 2).all())
    scale.run(x=x, y=y, rows=0, factor=2.0, interpret=interpret)
    assert bool((y < 2).all()), "rows that are not stored keep what they held"
    assert [p.is_written for p in scale.functions[0].parameters] == [False, True, False, False]


def test_both_ways_give_equal_bytes() -> None:
    kernel = ktir.load(GOLDEN / "product.mlir")
    a = torch.randn(32, 128, dtype=torch.float16)
    b = torch.randn(128, 192, dtype=torch.float16)
    card, definition = (torch.zeros(32, 192, dtype=torch.float16) for _ in range(2))
    kernel.run(a=a, b=b, c=card, k=128)
    kernel.run(a=a, b=b, c=definition, k=128, interpret=True)
    assert torch.equal(card, definition)
    torch.testing.assert_close(card.float(), a.float() @ b.float(), atol=0.15, rtol=2e-2)


def test_strided_and_gathered() -> None:
    kernel = ktir.load(GOLDEN / "gather.mlir")
    table = torch.randn(64, 32, dtype=torch.float16).t()
    rows = torch.randint(0, 32, (16,), dtype=torch.int32)
    out = torch.zeros(16, 64, dtype=torch.float16)
    kernel.run(table=table, rows=rows, out=out)
    torch.testing.assert_close(out, table[rows.long()], atol=4e-3, rtol=2e-3)


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("dim", ["i", "j", "p", "q"])
@pytest.mark.parametrize("index", [-1, 40, 2**31 - 1])
def test_an_index_beyond_its_own_dim_faults(interpret: bool, dim: str, index: int) -> None:
    # (0, 40) of 32 x 40 is an element of the table, but no index.
    kernel = ktir.load(GOLDEN / "lookup.mlir")
    tensors = {p.name: torch.zeros(p.shape, dtype=p.dtype) for p in kernel.functions[0].parameters}
    kernel.run(interpret=interpret, **tensors)
    tensors[dim].view(-1)[3] = index
    with pytest.raises(RuntimeError, match="lookup.mlir|row"):
        kernel.run(interpret=interpret, **tensors)


def test_grid_and_functions() -> None:
    kernel = ktir.load(GOLDEN / "parts.mlir")
    with pytest.raises(ValueError, match="no single function"):
        kernel.run()
    with pytest.raises(RuntimeError, match="touches LX of compute tile 1 without a message"):
        kernel.run(function="nearby", interpret=True)
    with pytest.raises(RuntimeError, match="the grid has 1 compute tiles"):
        kernel.run(function="nearby", grid=(1,), interpret=True)


def test_report(scale: ktir.Kernel) -> None:
    x = torch.zeros(16, 256, dtype=torch.float16)
    report = scale.report(x=x, y=x, rows=16, factor=2)
    assert report.total.memory_read_bytes == 16 * 256 * 2 and report.total.us > 0
    assert [k.location for k in report.kernels] == ["scale.mlir:10"]
    assert "us roofline, of memory" in report.why and "store [256]" in report.listing


def test_errors(scale: ktir.Kernel) -> None:
    x = torch.zeros(16, 256, dtype=torch.float16)
    with pytest.raises(RuntimeError, match=r"k\.mlir:1:10: expected 'func\.func', found '}'"):
        ktir.loads("module { }", "k.mlir")
    with pytest.raises(TypeError, match="@scale wants y"):
        scale.run(x=x, rows=16, factor=2)
    with pytest.raises(TypeError, match="has no parameter z"):
        scale.run(x=x, y=x, z=x, rows=16, factor=2)
    with pytest.raises(TypeError, match="x: torch.float32, the kernel takes torch.float16"):
        scale.run(x=x.float(), y=x, rows=16, factor=2)
    with pytest.raises(TypeError, match="rows: a number is wanted"):
        scale.run(x=x, y=x, rows=x, factor=2)
    with pytest.raises(RuntimeError, match="coordinates 0 to 16 of dim 0"):
        scale.run(x=x, y=x, rows=20, factor=2)
    with pytest.raises(RuntimeError, match="is not in the view of line 8"):
        scale.run(x=x, y=x, rows=20, factor=2, interpret=True)


FMA = """
module {
  func.func @fused(%a: index, %b: index, %c: index, %y: index) attributes {grid = [1]} {
    %c0 = arith.constant 0 : index
VIEWS
    %r = math.fma %av, %bv, %cv : tensor<8x96xf16>
    ktdp.store %r, %yt : tensor<8x96xf16>, !ktdp.access_tile<8x96xindex>
    return
  }
}
""".replace(
    "VIEWS",
    "\n".join(
        f"""
    %{n}m = ktdp.construct_memory_view %{n}, sizes: [8, 96], strides: [96, 1]
      {{memory_space = #ktdp.memory_space<global>}} : memref<8x96xf16>
    %{n}t = ktdp.construct_access_tile %{n}m[%c0, %c0]
      : memref<8x96xf16> -> !ktdp.access_tile<8x96xindex>
    %{n}v = ktdp.load %{n}t : !ktdp.access_tile<8x96xindex> -> tensor<8x96xf16>"""
        for n in "abcy"
    ),
)


def test_a_fused_product_is_rounded_once():
    kernel = ktir.loads(FMA)
    a, b, near = (torch.randn(8, 96).half() for _ in range(3))
    c = near / 4096 - a * b  # what is left of the product where the sum cancels
    y, by_definition = torch.zeros_like(a), torch.zeros_like(a)
    kernel.run(a=a, b=b, c=c, y=y)
    kernel.run(a=a, b=b, c=c, y=by_definition, interpret=True)
    assert torch.equal(y.view(torch.int16), by_definition.view(torch.int16))
    assert not torch.equal(y, a * b + c)


# A kernel that is one row fusion reads and writes arrays of float16 where they lie.
ROTATED = """
module {
  func.func @rotated(%x: index, %c: index, %y: index) attributes {grid = [2]} {
    %id = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %row = arith.muli %id, %c256 : index
    %xm = ktdp.construct_memory_view %x, sizes: [512, 128], strides: [128, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<512x128xf16>
    %cm = ktdp.construct_memory_view %c, sizes: [512, 64], strides: [64, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<512x64xf16>
    %ym = ktdp.construct_memory_view %y, sizes: [512, 128], strides: [128, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<512x128xf16>
    %lt = ktdp.construct_access_tile %xm[%row, %c0]
      : memref<512x128xf16> -> !ktdp.access_tile<256x64xindex>
    %rt = ktdp.construct_access_tile %xm[%row, %c64]
      : memref<512x128xf16> -> !ktdp.access_tile<256x64xindex>
    %ct = ktdp.construct_access_tile %cm[%row, %c0]
      : memref<512x64xf16> -> !ktdp.access_tile<256x64xindex>
    %lo = ktdp.construct_access_tile %ym[%row, %c0]
      : memref<512x128xf16> -> !ktdp.access_tile<256x64xindex>
    %ro = ktdp.construct_access_tile %ym[%row, %c64]
      : memref<512x128xf16> -> !ktdp.access_tile<256x64xindex>
    %left = ktdp.load %lt : !ktdp.access_tile<256x64xindex> -> tensor<256x64xf16>
    %right = ktdp.load %rt : !ktdp.access_tile<256x64xindex> -> tensor<256x64xf16>
    %cos = ktdp.load %ct : !ktdp.access_tile<256x64xindex> -> tensor<256x64xf16>
    %a = arith.mulf %left, %cos : tensor<256x64xf16>
    %b = arith.mulf %right, %cos : tensor<256x64xf16>
    %p = arith.subf %a, %right : tensor<256x64xf16>
    %q = arith.addf %b, %left : tensor<256x64xf16>
    ktdp.store %p, %lo : tensor<256x64xf16>, !ktdp.access_tile<256x64xindex>
    ktdp.store %q, %ro : tensor<256x64xf16>, !ktdp.access_tile<256x64xindex>
    return
  }
}
"""


@pytest.mark.parametrize("profiled", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_arrays_that_stay_where_they_lie(profiled: bool, in_place: bool) -> None:
    kernel = ktir.loads(ROTATED)
    # All 65536 float16, subnormal ones, infinities and NaN among them.
    x = torch.arange(-32768, 32768, dtype=torch.int16).view(torch.float16).view(512, 128)
    c = torch.randn(512, 64).half()
    y, by_definition = torch.zeros_like(x), torch.zeros_like(x)
    kernel.run(x=x, c=c, y=by_definition, interpret=True)
    target = x.clone() if in_place else y
    with torch.profiler.profile() if profiled else contextlib.nullcontext():
        kernel.run(x=target if in_place else x, c=c, y=target)
    # The sign of a NaN that becomes infinity is the host's choice.
    assert torch.equal(target.view(torch.int16), by_definition.view(torch.int16))


@pytest.mark.parametrize("depth", [63, 65, 129, 200])
def test_products_of_any_depth(depth: int) -> None:
    # The last stick along the depth is short, and the arrays end with it.
    sizes = {"a": (7, depth), "b": (depth, 64), "c": (7, 64)}
    lines = ["%z = arith.constant 0 : index"]
    for name, (rows, columns) in sizes.items():
        lines += [
            f"%{name}v = ktdp.construct_memory_view %{name}, sizes: [{rows}, {columns}], strides: "
            f"[{columns}, 1] {{memory_space = #ktdp.memory_space<global>}} "
            f": memref<{rows}x{columns}xf16>",
            f"%{name}t = ktdp.construct_access_tile %{name}v[%z, %z] "
            f": memref<{rows}x{columns}xf16> -> !ktdp.access_tile<{rows}x{columns}xindex>",
        ]
        if name != "c":
            lines.append(
                f"%{name}l = ktdp.load %{name}t : !ktdp.access_tile<{rows}x{columns}xindex> "
                f"-> tensor<{rows}x{columns}xf16>"
            )
    lines += [
        "%s = arith.constant dense<0.0> : tensor<7x64xf16>",
        f"%r = linalg.matmul ins(%al, %bl : tensor<7x{depth}xf16>, tensor<{depth}x64xf16>) "
        "outs(%s : tensor<7x64xf16>) -> tensor<7x64xf16>",
        "ktdp.store %r, %ct : tensor<7x64xf16>, !ktdp.access_tile<7x64xindex>",
        "return",
    ]
    text = "\n".join(lines)
    kernel = ktir.loads(
        f"module {{ func.func @f(%a: index, %b: index, %c: index) {{\n{text}\n}} }}"
    )
    a, b = torch.randn(7, depth).half(), torch.randn(depth, 64).half()
    card, definition = torch.zeros(7, 64).half(), torch.zeros(7, 64).half()
    kernel.run(a=a, b=b, c=card)
    kernel.run(a=a, b=b, c=definition, interpret=True)
    assert torch.equal(card, definition)
    torch.testing.assert_close(card.float(), a.float() @ b.float(), atol=0.15, rtol=2e-2)
