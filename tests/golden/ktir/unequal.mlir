// Values from before a loop whose body is lowered several times: cores run it unequally often, and
// each iteration of scf.forall is lowered for itself.
module {
  func.func @unequal(%x: index, %y: index, %z: index) attributes {grid = [3]} {
    %id = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %end = arith.addi %id, %c1 : index
    %zero = arith.constant dense<0.0> : tensor<1x64xf16>
    %xs = ktdp.construct_memory_view %x, sizes: [3, 64], strides: [64, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<3x64xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [3, 64], strides: [64, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<3x64xf16>
    %zs = ktdp.construct_memory_view %z, sizes: [3, 3, 64], strides: [192, 64, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<3x3x64xf16>
    %own = ktdp.construct_access_tile %xs[%id, %c0]
      : memref<3x64xf16> -> !ktdp.access_tile<1x64xindex>
    %q = ktdp.load %own : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf16>
    %sum = scf.for %j = %c0 to %end step %c1 iter_args(%m = %zero) -> (tensor<1x64xf16>) {
      %other = ktdp.construct_access_tile %xs[%j, %c0]
        : memref<3x64xf16> -> !ktdp.access_tile<1x64xindex>
      %k = ktdp.load %other : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf16>
      %p = arith.mulf %k, %q : tensor<1x64xf16>
      %s = arith.addf %m, %p : tensor<1x64xf16>
      %d = arith.subf %m, %s : tensor<1x64xf16>
      %n = arith.subf %s, %d : tensor<1x64xf16>
      scf.yield %n : tensor<1x64xf16>
    }
    %out = ktdp.construct_access_tile %ys[%id, %c0]
      : memref<3x64xf16> -> !ktdp.access_tile<1x64xindex>
    ktdp.store %sum, %out : tensor<1x64xf16>, !ktdp.access_tile<1x64xindex>
    scf.forall (%i) in (%c3) {
      %other = ktdp.construct_access_tile %xs[%i, %c0]
        : memref<3x64xf16> -> !ktdp.access_tile<1x64xindex>
      %k = ktdp.load %other : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf16>
      %p = arith.mulf %k, %q : tensor<1x64xf16>
      %line = tensor.expand_shape %p [[0, 1], [2]] output_shape [1, 1, 64]
        : tensor<1x64xf16> into tensor<1x1x64xf16>
      %to = ktdp.construct_access_tile %zs[%id, %i, %c0]
        : memref<3x3x64xf16> -> !ktdp.access_tile<1x1x64xindex>
      ktdp.store %line, %to : tensor<1x1x64xf16>, !ktdp.access_tile<1x1x64xindex>
    }
    return
  }
}
