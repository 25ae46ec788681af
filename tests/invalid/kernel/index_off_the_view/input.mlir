module { func.func @f(%x: index, %n: index) attributes {grid = [1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %id = ktdp.get_compute_tile_id : index
  %v = ktdp.construct_memory_view %x, sizes: [8, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
  %iv = ktdp.construct_memory_view %c0, sizes: [4], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<4xi32>
  %g = ktdp.construct_indirect_access_tile intermediate_variables(%a, %b) %v[ind(%iv[%a]), (%b)] {variables_space_set = affine_set<(d0, d1) : (d0 >= 0, d0 <= 3, d1 >= 0, d1 <= 63)>} : memref<8x64xf16>, memref<4xi32> -> <4x64xindex>
  %w = ktdp.load %g : <4x64xindex> -> tensor<4x64xf16>
  return
} }
