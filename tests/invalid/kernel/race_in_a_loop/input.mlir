module { func.func @f(%x: index, %n: index) attributes {grid = [2]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %id = ktdp.get_compute_tile_id : index
  %v = ktdp.construct_memory_view %x, sizes: [8, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
  %i = arith.index_cast %id : index to i32
  %f = arith.sitofp %i : i32 to f16
  %s = tensor.splat %f : tensor<1x64xf16>
  %c2 = arith.constant 2 : index
  scf.for %k = %c0 to %c2 step %c1 {
  %t = ktdp.construct_access_tile %v[%k + %id, %c0] : memref<8x64xf16> -> <1x64xindex>
  ktdp.store %s, %t : tensor<1x64xf16>, <1x64xindex>
  }
  return
} }
