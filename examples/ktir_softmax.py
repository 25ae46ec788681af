# SPDX-License-Identifier: Apache-2.0
"""A KTIR kernel on the emulated card: run it, check it, ask where its time goes."""

import torch
import torch_spyre.ktir as ktir

KERNEL = """
#row = affine_set<(d0, d1) : (d0 >= 0, d0 <= 0, d1 >= 0, d1 <= 1023)>
module {
  func.func @softmax(%x: index, %y: index, %rows: index) attributes {grid = [32]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %xs = ktdp.construct_memory_view %x, sizes: [256, 1024], strides: [1024, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<256x1024xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [256, 1024], strides: [1024, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<256x1024xf16>
    scf.for %r = %pid to %rows step %c32 {
      %from = ktdp.construct_access_tile %xs[%r, %c0] {access_tile_set = #row}
        : memref<256x1024xf16> -> !ktdp.access_tile<1x1024xindex>
      %v = ktdp.load %from : !ktdp.access_tile<1x1024xindex> -> tensor<1x1024xf16>
      %low = arith.constant dense<0xFC00> : tensor<1xf16>
      %top = linalg.reduce { arith.maximumf } ins(%v : tensor<1x1024xf16>)
        outs(%low : tensor<1xf16>) dimensions = [1]
      %t = tensor.extract %top[%c0] : tensor<1xf16>
      %ts = tensor.splat %t : tensor<1x1024xf16>
      %d = arith.subf %v, %ts : tensor<1x1024xf16>
      %e = math.exp %d : tensor<1x1024xf16>
      %zero = arith.constant dense<0.0> : tensor<1xf16>
      %sum = linalg.reduce { arith.addf } ins(%e : tensor<1x1024xf16>)
        outs(%zero : tensor<1xf16>) dimensions = [1]
      %s = tensor.extract %sum[%c0] : tensor<1xf16>
      %ss = tensor.splat %s : tensor<1x1024xf16>
      %out = arith.divf %e, %ss : tensor<1x1024xf16>
      %to = ktdp.construct_access_tile %ys[%r, %c0] {access_tile_set = #row}
        : memref<256x1024xf16> -> !ktdp.access_tile<1x1024xindex>
      ktdp.store %out, %to : tensor<1x1024xf16>, !ktdp.access_tile<1x1024xindex>
    }
    return
  }
}
"""


def main() -> None:
    kernel = ktir.loads(KERNEL, "softmax.mlir")
    x = torch.randn(256, 1024, dtype=torch.float16)
    y = torch.zeros_like(x)
    kernel.run(x=x, y=y, rows=256)
    torch.testing.assert_close(y.float(), torch.softmax(x.float(), -1), atol=1e-4, rtol=5e-3)

    by_definition = torch.zeros_like(x)
    kernel.run(x=x, y=by_definition, rows=256, interpret=True)
    assert torch.equal(y, by_definition)

    print(kernel.report(x=x, y=y, rows=256).why)


if __name__ == "__main__":
    main()
