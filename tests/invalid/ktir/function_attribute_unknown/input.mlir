#row = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 255 >= 0)>
#order = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @scale(%x: index, %y: index, %rows: index, %factor: f16) attributes {gird = [4]} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %pid = ktdp.get_compute_tile_id : index
    %xs = ktdp.construct_memory_view %x, sizes: [16, 256], strides: [256, 1] {memory_space = #ktdp.memory_space<global>} : memref<16x256xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [16, 256], strides: [256, 1] {memory_space = #ktdp.memory_space<global>} : memref<16x256xf16>
    scf.for %row = %pid to %rows step %c4 {
      %xt = ktdp.construct_access_tile %xs[%row, %c0] {access_tile_set = #row, access_tile_order = #order} : memref<16x256xf16> -> !ktdp.access_tile<1x256xindex>
      %yt = ktdp.construct_access_tile %ys[%row, %c0] {access_tile_set = #row, access_tile_order = #order} : memref<16x256xf16> -> !ktdp.access_tile<1x256xindex>
      %v = ktdp.load %xt : !ktdp.access_tile<1x256xindex> -> tensor<1x256xf16>
      %f = tensor.splat %factor : tensor<1x256xf16>
      %p = arith.mulf %v, %f : tensor<1x256xf16>
      ktdp.store %p, %yt : tensor<1x256xf16>, !ktdp.access_tile<1x256xindex>
    }
    return
  }
}
