// The three diagonals of a square in one row, and back as those of another one.
#band = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0, d0 - d1 + 1 >= 0, d1 - d0 + 1 >= 0)>
module {
  func.func @band(%x: index, %y: index) attributes {grid = [2]} {
    %id = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %row = arith.muli %id, %c64 : index
    %xs = ktdp.construct_memory_view %x, sizes: [128, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<128x64xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [128, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<128x64xf16>
    %xt = ktdp.construct_access_tile %xs[%row, %c0] {access_tile_set = #band} : memref<128x64xf16> -> !ktdp.access_tile<2x95xindex>
    %yt = ktdp.construct_access_tile %ys[%row, %c0] {access_tile_set = #band} : memref<128x64xf16> -> !ktdp.access_tile<2x95xindex>
    %v = ktdp.load %xt : !ktdp.access_tile<2x95xindex> -> tensor<2x95xf16>
    %r = math.exp %v : tensor<2x95xf16>
    ktdp.store %r, %yt : tensor<2x95xf16>, !ktdp.access_tile<2x95xindex>
    return
  }
}
