// Halves of rows swapped: views of views, a base_map, nests without an order.
#swap = affine_map<(d0, d1) -> (d0, 64 - d1)>
module {
  func.func @slices(%x: index, %y: index) attributes {grid = [2]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c64 = arith.constant 64 : index
    %xs = ktdp.construct_memory_view %x, sizes: [8, 128], strides: [128, 1] {memory_space = #ktdp.memory_space<global>} : memref<8x128xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [16, 128], strides: [128, 1] {memory_space = #ktdp.memory_space<global>} : memref<16x128xf16>
    %odd = memref.subview %ys[1, 0] [8, 128] [2, 1] : memref<16x128xf16> to memref<8x128xf16, strided<[256, 1], offset: 128>>
    %late = memref.subview %odd[0, 0] [8, 128] [1, 1] : memref<8x128xf16, strided<[256, 1], offset: 128>> to memref<8x128xf16, strided<[256, 1], offset: 128>>
    %first = arith.muli %pid, %c4 : index
    scf.forall (%i, %j) in (%c4, %c2) {
      %row = arith.addi %first, %i : index
      %at = arith.muli %j, %c64 : index
      %from = ktdp.construct_access_tile %xs[%row, %at] : memref<8x128xf16> -> !ktdp.access_tile<1x64xindex>
      %to = ktdp.construct_access_tile %late[%row, %at] {base_map = #swap} : memref<8x128xf16, strided<[256, 1], offset: 128>> -> !ktdp.access_tile<1x64xindex>
      %v = ktdp.load %from : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf16>
      ktdp.store %v, %to : tensor<1x64xf16>, !ktdp.access_tile<1x64xindex>
    }
    scf.parallel (%i) = (%c0) to (%c4) step (%c2) {
      %row = arith.addi %first, %i : index
      %u = ktdp.construct_access_tile %xs[%row, %c0] : memref<8x128xf16> -> !ktdp.access_tile<1x128xindex>
      %w = ktdp.load %u : !ktdp.access_tile<1x128xindex> -> tensor<1x128xf16>
      %n = arith.negf %w : tensor<1x128xf16>
      ktdp.store %n, %u : tensor<1x128xf16>, !ktdp.access_tile<1x128xindex>
    }
    return
  }
}
