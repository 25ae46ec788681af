// Views at given places in LX: one of each core's own, and a tensor in memory and in the LX of two
// cores, of which every core loads another part, and some of both.
// One core stores into the LX of another.
#rows = affine_set<(d0, d1) : (d0 >= 0, d0 <= 3, d1 >= 0, d1 <= 63)>
#first = affine_set<(d0, d1) : (d0 >= 4, d0 <= 7, d1 >= 0, d1 <= 63)>
#second = affine_set<(d0, d1) : (d0 >= 8, d0 <= 11, d1 >= 0, d1 <= 63)>
module {
  func.func @places(%a: index, %x: index, %out: index) attributes {grid = [3]} {
    %id = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %at = arith.constant 6144 : index
    %mine = arith.constant 96 : index
    %parted = arith.constant 8192 : index
    %as = ktdp.construct_memory_view %a, sizes: [4, 64], strides: [64, 1] {coordinate_set = #rows, memory_space = #ktdp.memory_space<global>} : memref<4x64xf16>
    %lx0 = ktdp.construct_memory_view %parted, sizes: [4, 64], strides: [1, 4] {coordinate_set = #first, memory_space = #ktdp.memory_space<ct_local, ct_id = 0>} : memref<4x64xf16>
    %lx2 = ktdp.construct_memory_view %at, sizes: [4, 64], strides: [64, 1] {coordinate_set = #second, memory_space = #ktdp.memory_space<ct_local, ct_id = 2>} : memref<4x64xf16>
    %whole = ktdp.construct_distributed_memory_view (%as, %lx0, %lx2 : memref<4x64xf16>, memref<4x64xf16>, memref<4x64xf16>) : memref<12x64xf16>
    %own = ktdp.construct_memory_view %mine, sizes: [2, 4, 64], strides: [256, 1, 4] {memory_space = #ktdp.memory_space<ct_local>} : memref<2x4x64xf16>
    %xs = ktdp.construct_memory_view %x, sizes: [12, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<12x64xf16>
    %os = ktdp.construct_memory_view %out, sizes: [12, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<12x64xf16>
    %row = arith.muli %id, %c4 : index
    %xt = ktdp.construct_access_tile %xs[%row, %c0] : memref<12x64xf16> -> !ktdp.access_tile<4x64xindex>
    %v = ktdp.load %xt : !ktdp.access_tile<4x64xindex> -> tensor<4x64xf16>
    scf.for %i = %c0 to %c2 step %c1 {
      %tile = ktdp.construct_access_tile %own[%i, %c0, %c0] : memref<2x4x64xf16> -> !ktdp.access_tile<1x4x64xindex>
      %flat = tensor.expand_shape %v [[0, 1], [2]] output_shape [1, 4, 64] : tensor<4x64xf16> into tensor<1x4x64xf16>
      ktdp.store %flat, %tile : tensor<1x4x64xf16>, !ktdp.access_tile<1x4x64xindex>
    }
    %back = ktdp.construct_access_tile %own[%c1, %c0, %c0] : memref<2x4x64xf16> -> !ktdp.access_tile<1x4x64xindex>
    %w3 = ktdp.load %back : !ktdp.access_tile<1x4x64xindex> -> tensor<1x4x64xf16>
    %w = tensor.collapse_shape %w3 [[0, 1], [2]] : tensor<1x4x64xf16> into tensor<4x64xf16>
    %pt = ktdp.construct_access_tile %whole[%row, %c0] : memref<12x64xf16> -> !ktdp.access_tile<4x64xindex>
    %p = ktdp.load %pt : !ktdp.access_tile<4x64xindex> -> tensor<4x64xf16>
    %at_all = ktdp.construct_access_tile %whole[%c2, %c0] : memref<12x64xf16> -> !ktdp.access_tile<8x64xindex>
    %some = scf.for %k = %c0 to %c2 step %c1 iter_args(%sum = %v) -> (tensor<4x64xf16>) {
      %all = ktdp.load %at_all : !ktdp.access_tile<8x64xindex> -> tensor<8x64xf16>
      %part = tensor.extract_slice %all[3, 0] [4, 64] [1, 1] : tensor<8x64xf16> to tensor<4x64xf16>
      %next = arith.addf %sum, %part : tensor<4x64xf16>
      scf.yield %next : tensor<4x64xf16>
    }
    %s = arith.addf %w, %p : tensor<4x64xf16>
    %t = arith.mulf %s, %some : tensor<4x64xf16>
    %ot = ktdp.construct_access_tile %os[%row, %c0] : memref<12x64xf16> -> !ktdp.access_tile<4x64xindex>
    ktdp.store %t, %ot : tensor<4x64xf16>, !ktdp.access_tile<4x64xindex>
    %last = arith.constant 16384 : index
    %sink = ktdp.construct_memory_view %last, sizes: [4, 64], strides: [64, 1] {coordinate_set = #rows, memory_space = #ktdp.memory_space<ct_local, ct_id = 2>} : memref<4x64xf16>
    %far = ktdp.construct_distributed_memory_view (%sink : memref<4x64xf16>) : memref<4x64xf16>
    %is1 = arith.cmpi eq, %id, %c1 : index
    scf.if %is1 {
      %ft = ktdp.construct_access_tile %far[%c0, %c0] : memref<4x64xf16> -> !ktdp.access_tile<4x64xindex>
      ktdp.store %t, %ft : tensor<4x64xf16>, !ktdp.access_tile<4x64xindex>
    }
    return
  }
}
