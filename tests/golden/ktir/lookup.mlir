// Indices in two dims: rows of a table of tables are fetched by two lists, and single elements of
// another one written by two tensors of indices.
module {
  func.func @lookup(%table: index, %i: index, %j: index, %out: index, %p: index, %q: index, %written: index) attributes {grid = [2]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %first = arith.muli %pid, %c8 : index
    %tv = ktdp.construct_memory_view %table, sizes: [32, 40, 64], strides: [2560, 64, 1] {memory_space = #ktdp.memory_space<global>} : memref<32x40x64xf16>
    %iv = ktdp.construct_memory_view %i, sizes: [16], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<16xi32>
    %jv = ktdp.construct_memory_view %j, sizes: [16], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<16xi32>
    %ov = ktdp.construct_memory_view %out, sizes: [16, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<16x64xf16>
    %pv = ktdp.construct_memory_view %p, sizes: [16, 4], strides: [4, 1] {memory_space = #ktdp.memory_space<global>} : memref<16x4xi32>
    %qv = ktdp.construct_memory_view %q, sizes: [16], strides: [1] {memory_space = #ktdp.memory_space<global>} : memref<16xi32>
    %wv = ktdp.construct_memory_view %written, sizes: [2, 32, 32], strides: [1024, 32, 1] {memory_space = #ktdp.memory_space<global>} : memref<2x32x32xf16>
    %rows = ktdp.construct_indirect_access_tile intermediate_variables(%m, %k) %tv[ind(%iv[%m + %first]), ind(%jv[%m + %first]), (%k)] {
      variables_space_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 63 >= 0)>,
      variables_space_order = affine_map<(d0, d1) -> (d0, d1)>
    } : memref<32x40x64xf16>, memref<16xi32>, memref<16xi32> -> !ktdp.access_tile<8x64xindex>
    %v = ktdp.load %rows : !ktdp.access_tile<8x64xindex> -> tensor<8x64xf16>
    %to = ktdp.construct_access_tile %ov[%first, %c0] : memref<16x64xf16> -> !ktdp.access_tile<8x64xindex>
    ktdp.store %v, %to : tensor<8x64xf16>, !ktdp.access_tile<8x64xindex>
    %four = tensor.extract_slice %v[0, 0] [8, 4] [1, 1] : tensor<8x64xf16> to tensor<8x4xf16>
    %elements = ktdp.construct_indirect_access_tile intermediate_variables(%m, %k) %wv[(%pid), ind(%pv[%m + %first, %k]), ind(%qv[%m + %first])] {
      variables_space_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 3 >= 0)>,
      variables_space_order = affine_map<(d0, d1) -> (d0, d1)>
    } : memref<2x32x32xf16>, memref<16x4xi32>, memref<16xi32> -> !ktdp.access_tile<8x4xindex>
    ktdp.store %four, %elements : tensor<8x4xf16>, !ktdp.access_tile<8x4xindex>
    return
  }
}
