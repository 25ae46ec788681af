// A tensor in two parts of memory and one of another core's LX, sizes that a value gives.
#left = affine_set<(d0, d1)[s0] : (d0 >= 0, d0 <= 7, d1 >= 0, -d1 + s0 - 1 >= 0)>
#right = affine_set<(d0, d1)[s0] : (d0 >= 0, d0 <= 7, d1 - s0 >= 0, -d1 + 2 * s0 - 1 >= 0)>
module {
  func.func @parts(%a: index, %b: index, %c: index, %n: i32) {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %s = arith.index_cast %n : i32 to index
    %both = arith.muli %s, %c2 : index
    %as = ktdp.construct_memory_view %a, sizes: [8, %s], strides: [%s, 1] {coordinate_set = #left, memory_space = #ktdp.memory_space<global>} : memref<8x?xf16>
    %bs = ktdp.construct_memory_view %b, sizes: [8, %s], strides: [%s, 1] {memory_space = #ktdp.memory_space<global>} : memref<8x?xf16>
    %whole = ktdp.construct_distributed_memory_view (%as, %bs : memref<8x?xf16>, memref<8x?xf16>) : memref<8x?xf16>
    %cs = ktdp.construct_memory_view %c, sizes: [8, %both], strides: [%both, 1] {memory_space = #ktdp.memory_space<global>} : memref<8x?xf16>
    %from = ktdp.construct_access_tile %whole[%c0, %c0] : memref<8x?xf16> -> !ktdp.access_tile<8x32xindex>
    %to = ktdp.construct_access_tile %cs[%c0, %c0] : memref<8x?xf16> -> !ktdp.access_tile<8x32xindex>
    %v = ktdp.load %from : !ktdp.access_tile<8x32xindex> -> tensor<8x32xf16>
    ktdp.store %v, %to : tensor<8x32xf16>, !ktdp.access_tile<8x32xindex>
    return
  }
  func.func @nearby() attributes {grid = [2]} {
    %c0 = arith.constant 0 : index
    %here = arith.constant 4096 : index
    %l = ktdp.construct_memory_view %here, sizes: [2, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<ct_local, ct_id = 1>} : memref<2x64xf16>
    %t = ktdp.construct_access_tile %l[%c0, %c0] : memref<2x64xf16> -> !ktdp.access_tile<2x64xindex>
    %v = ktdp.load %t : !ktdp.access_tile<2x64xindex> -> tensor<2x64xf16>
    return
  }
}
