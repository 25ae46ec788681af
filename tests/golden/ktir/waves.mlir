// More compute tiles than cores: whole waves of 32 are a loop of the card where coordinates in the
// grid advance alike. Each compute tile sums `parts` times a row's block, from the row of its own.
module {
  func.func @waves(%x: index, %y: index, %parts: index) attributes {grid = [8, 9]} {
    %i, %j = ktdp.get_compute_tile_id : index, index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %xv = ktdp.construct_memory_view %x, sizes: [27, 64], strides: [64, 1] {
      coordinate_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 26 >= 0, d1 >= 0, -d1 + 63 >= 0)>,
      memory_space = #ktdp.memory_space<global>
    } : memref<27x64xf16>
    %yv = ktdp.construct_memory_view %y, sizes: [27, 64], strides: [64, 1] {
      coordinate_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 26 >= 0, d1 >= 0, -d1 + 63 >= 0)>,
      memory_space = #ktdp.memory_space<global>
    } : memref<27x64xf16>
    %column = arith.muli %i, %c8 : index
    %zero = arith.constant dense<0.0> : tensor<1x8xf16>
    %sum = scf.for %k = %c0 to %parts step %c1 iter_args(%acc = %zero) -> (tensor<1x8xf16>) {
      %row = arith.addi %j, %k : index
      %tile = ktdp.construct_access_tile %xv[%row, %column] {
        access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 7 >= 0)>,
        access_tile_order = affine_map<(d0, d1) -> (d0, d1)>
      } : memref<27x64xf16> -> !ktdp.access_tile<1x8xindex>
      %a = ktdp.load %tile : !ktdp.access_tile<1x8xindex> -> tensor<1x8xf16>
      %next = arith.addf %acc, %a : tensor<1x8xf16>
      scf.yield %next : tensor<1x8xf16>
    }
    %out = ktdp.construct_access_tile %yv[%j, %column] {
      access_tile_set = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 7 >= 0)>,
      access_tile_order = affine_map<(d0, d1) -> (d0, d1)>
    } : memref<27x64xf16> -> !ktdp.access_tile<1x8xindex>
    ktdp.store %sum, %out : tensor<1x8xf16>, !ktdp.access_tile<1x8xindex>
    return
  }
}
