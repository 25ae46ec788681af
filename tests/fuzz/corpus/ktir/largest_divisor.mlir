module {
  func.func @f(%x: index, %i: index, %y: index) attributes {grid = [1]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %tv = ktdp.construct_memory_view %x, sizes: [32, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<32x64xf16>
    %iv = ktdp.construct_memory_view %i, sizes: [16], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<16xi32>
    %ov = ktdp.construct_memory_view %y, sizes: [8, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
    %rows = ktdp.construct_indirect_access_tile intermediate_variables(%m, %k) %tv[ind(%iv[%m floordiv 9223372036854775807]), (%k)] {
      variables_space_set = affine_set<(d0, d1) : (d0 - 1 >= 0, -d0 + 8 >= 0, d1 >= 0, -d1 + 63 >= 0)>,
      variables_space_order = affine_map<(d0, d1) -> (d0, d1)>
    } : memref<32x64xf16>, memref<16xi32> -> !ktdp.access_tile<8x64xindex>
    %v = ktdp.load %rows : !ktdp.access_tile<8x64xindex> -> tensor<8x64xf16>
    %to = ktdp.construct_access_tile %ov[%c0, %c0] : memref<8x64xf16> -> !ktdp.access_tile<8x64xindex>
    ktdp.store %v, %to : tensor<8x64xf16>, !ktdp.access_tile<8x64xindex>
    return
  }
}
