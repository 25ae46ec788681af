module { func.func @f(%x: index, %n: index) attributes {grid = [2]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %many = arith.constant 100000 : index
  %id = ktdp.get_compute_tile_id : index
  %v = ktdp.construct_memory_view %x, sizes: [8, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
  %f = arith.constant dense<1.0> : tensor<1x64xf16>
  scf.for %k = %c0 to %many step %c1 {
  scf.for %l = %c0 to %many step %c1 {
  %t = ktdp.construct_access_tile %v[%id, %c0] : memref<8x64xf16> -> <1x64xindex>
  ktdp.store %f, %t : tensor<1x64xf16>, <1x64xindex>
  }
  }
  return
} }
