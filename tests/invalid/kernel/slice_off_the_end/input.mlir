module { func.func @f(%x: index, %n: index) attributes {grid = [2]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %id = ktdp.get_compute_tile_id : index
  %v = ktdp.construct_memory_view %x, sizes: [8, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
  %t = ktdp.construct_access_tile %v[%c0, %c0] : memref<8x64xf16> -> <2x64xindex>
  %a = ktdp.load %t : <2x64xindex> -> tensor<2x64xf16>
  %k = tensor.extract_slice %a[%id, 0] [2, 64] [1, 1] : tensor<2x64xf16> to tensor<2x64xf16>
  return
} }
