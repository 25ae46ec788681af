#points = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#order = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @scatter(%table: index, %rows: index, %new: index) attributes {grid = [1]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %first = arith.muli %pid, %c8 : index
    %t = ktdp.construct_memory_view %table, sizes: [32, 64], strides: [64, 1] {coordinate_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 31 >= 0, d1 >= 0, -d1 + 63 >= 0)>, memory_space = #ktdp.memory_space<global>} : memref<32x64xf16>
    %r = ktdp.construct_memory_view %rows, sizes: [16], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<16xi32>
    %n = ktdp.construct_memory_view %new, sizes: [16, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<16x64xf16>
    %from = ktdp.construct_access_tile %n[%first, %c0] {access_tile_set = #points, access_tile_order = #order} : memref<16x64xf16> -> !ktdp.access_tile<16x64xindex>
    %to = ktdp.construct_indirect_access_tile intermediate_variables(%m, %k) %t[ind(%r[%first + %m]), (%k)] {variables_space_set = #points, variables_space_order = #order} : memref<32x64xf16>, memref<16xi32> -> !ktdp.access_tile<16x64xindex>
    %v = ktdp.load %from : !ktdp.access_tile<16x64xindex> -> tensor<16x64xf16>
    ktdp.store %v, %to : tensor<16x64xf16>, !ktdp.access_tile<16x64xindex>
    return
  }
}
