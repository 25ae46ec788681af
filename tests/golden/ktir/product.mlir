// c = a b in blocks of k; the rows of a tile of c are shared among 4 compute tiles.
module {
  func.func @product(%a: index, %b: index, %c: index, %k: index) attributes {grid = [4]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c64 = arith.constant 64 : index
    %row = arith.muli %pid, %c8 : index
    %as = ktdp.construct_memory_view %a, sizes: [32, 128], strides: [128, 1] {memory_space = #ktdp.memory_space<global>} : memref<32x128xf16>
    %bs = ktdp.construct_memory_view %b, sizes: [128, 192], strides: [192, 1] {memory_space = #ktdp.memory_space<global>} : memref<128x192xf16>
    %cs = ktdp.construct_memory_view %c, sizes: [32, 192], strides: [192, 1] {memory_space = #ktdp.memory_space<global>} : memref<32x192xf16>
    %zeros = arith.constant dense<0.0> : tensor<8x192xf16>
    %sum = scf.for %at = %c0 to %k step %c64 iter_args(%acc = %zeros) -> (tensor<8x192xf16>) {
      %at_a = ktdp.construct_access_tile %as[%row, %at] : memref<32x128xf16> -> !ktdp.access_tile<8x64xindex>
      %at_b = ktdp.construct_access_tile %bs[%at, %c0] : memref<128x192xf16> -> !ktdp.access_tile<64x192xindex>
      %av = ktdp.load %at_a : !ktdp.access_tile<8x64xindex> -> tensor<8x64xf16>
      %bv = ktdp.load %at_b : !ktdp.access_tile<64x192xindex> -> tensor<64x192xf16>
      %empty = tensor.empty() : tensor<8x192xf16>
      %part = linalg.matmul ins(%av, %bv : tensor<8x64xf16>, tensor<64x192xf16>) outs(%empty : tensor<8x192xf16>) -> tensor<8x192xf16>
      %next = arith.addf %acc, %part : tensor<8x192xf16>
      scf.yield %next : tensor<8x192xf16>
    }
    %at_c = ktdp.construct_access_tile %cs[%row, %c0] : memref<32x192xf16> -> !ktdp.access_tile<8x192xindex>
    ktdp.store %sum, %at_c : tensor<8x192xf16>, !ktdp.access_tile<8x192xindex>
    return
  }
}
