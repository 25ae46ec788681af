// Sum and largest element of each row's columns up to a limit of row and compute tile: the
// numbers of elements, of iterations and of compute tiles as elements; two values handed on.
#all = affine_map<(d0, d1) -> (d0, d1)>
#one = affine_map<(d0) -> (d0)>
module {
  func.func @causal(%x: index, %y: index, %blocks: index) attributes {grid = [4]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %first = arith.muli %pid, %c8 : index
    %xs = ktdp.construct_memory_view %x, sizes: [32, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<32x64xf32>
    %ys = ktdp.construct_memory_view %y, sizes: [2, 32], strides: [32, 1] {memory_space = #ktdp.memory_space<global>} : memref<2x32xf32>
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0xFF800000 : f32
    %zeros = tensor.splat %zero : tensor<8xf32>
    %lows = tensor.splat %low : tensor<8xf32>
    %sum, %top = scf.for %j = %c0 to %blocks step %c1 iter_args(%s = %zeros, %m = %lows) -> (tensor<8xf32>, tensor<8xf32>) {
      %at = arith.muli %j, %c16 : index
      %xt = ktdp.construct_access_tile %xs[%first, %at] : memref<32x64xf32> -> !ktdp.access_tile<8x16xindex>
      %v = ktdp.load %xt : !ktdp.access_tile<8x16xindex> -> tensor<8x16xf32>
      %e = tensor.empty() : tensor<8x16xf32>
      %masked = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
      ^bb0(%in: f32, %out: f32):
        %row = linalg.index 0 : index
        %col = linalg.index 1 : index
        %half = arith.divui %row, %c2 : index
        %limit = arith.addi %first, %half : index
        %place = arith.addi %at, %col : index
        %seen = arith.cmpi ule, %place, %limit : index
        %kept = arith.select %seen, %in, %low : f32
        linalg.yield %kept : f32
      } -> tensor<8x16xf32>
      %here = linalg.reduce { arith.maximumf } ins(%masked : tensor<8x16xf32>) outs(%lows : tensor<8xf32>) dimensions = [1]
      %exp = math.exp %masked : tensor<8x16xf32>
      %part = linalg.reduce { arith.addf } ins(%exp : tensor<8x16xf32>) outs(%zeros : tensor<8xf32>) dimensions = [1]
      %next = arith.addf %s, %part : tensor<8xf32>
      %best = arith.maximumf %m, %here : tensor<8xf32>
      scf.yield %next, %best : tensor<8xf32>, tensor<8xf32>
    }
    %yt = ktdp.construct_access_tile %ys[%c0, %first] : memref<2x32xf32> -> !ktdp.access_tile<1x8xindex>
    %yu = ktdp.construct_access_tile %ys[%c1, %first] : memref<2x32xf32> -> !ktdp.access_tile<1x8xindex>
    %sum2 = tensor.expand_shape %sum [[0, 1]] output_shape [1, 8] : tensor<8xf32> into tensor<1x8xf32>
    %top2 = tensor.expand_shape %top [[0, 1]] output_shape [1, 8] : tensor<8xf32> into tensor<1x8xf32>
    ktdp.store %sum2, %yt : tensor<1x8xf32>, !ktdp.access_tile<1x8xindex>
    ktdp.store %top2, %yu : tensor<1x8xf32>, !ktdp.access_tile<1x8xindex>
    return
  }
}
