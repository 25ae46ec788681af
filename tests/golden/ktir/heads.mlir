// One head of attention a compute tile: a transpose, two products, a softmax by regions, fp32 inside.
#all = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
module {
  func.func @heads(%x: index, %y: index) attributes {grid = [3]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %first = arith.muli %pid, %c16 : index
    %xs = ktdp.construct_memory_view %x, sizes: [48, 32], strides: [32, 1] {memory_space = #ktdp.memory_space<global>} : memref<48x32xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [48, 32], strides: [32, 1] {memory_space = #ktdp.memory_space<global>} : memref<48x32xf16>
    %xt = ktdp.construct_access_tile %xs[%first, %c0] : memref<48x32xf16> -> !ktdp.access_tile<16x32xindex>
    %q = ktdp.load %xt : !ktdp.access_tile<16x32xindex> -> tensor<16x32xf16>
    %wide = arith.extf %q : tensor<16x32xf16> to tensor<16x32xf32>
    %te = tensor.empty() : tensor<32x16xf32>
    %t = linalg.transpose ins(%wide : tensor<16x32xf32>) outs(%te : tensor<32x16xf32>) permutation = [1, 0]
    %zero = arith.constant dense<0.0> : tensor<16x16xf32>
    %s = linalg.matmul ins(%wide, %t : tensor<16x32xf32>, tensor<32x16xf32>) outs(%zero : tensor<16x16xf32>) -> tensor<16x16xf32>
    %low = arith.constant 0xFF800000 : f32
    %lows = tensor.splat %low : tensor<16xf32>
    %top = linalg.reduce { arith.maximumf } ins(%s : tensor<16x16xf32>) outs(%lows : tensor<16xf32>) dimensions = [1]
    %pe = tensor.empty() : tensor<16x16xf32>
    %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%s, %top : tensor<16x16xf32>, tensor<16xf32>) outs(%pe : tensor<16x16xf32>) {
    ^bb0(%a: f32, %m: f32, %o: f32):
      %d = arith.subf %a, %m : f32
      %e = math.exp %d : f32
      linalg.yield %e : f32
    } -> tensor<16x16xf32>
    %none = arith.constant dense<0.0> : tensor<16xf32>
    %sum = linalg.reduce { arith.addf } ins(%p : tensor<16x16xf32>) outs(%none : tensor<16xf32>) dimensions = [1]
    %ae = arith.constant dense<0.0> : tensor<16x32xf32>
    %acc = linalg.matmul ins(%p, %wide : tensor<16x16xf32>, tensor<16x32xf32>) outs(%ae : tensor<16x32xf32>) -> tensor<16x32xf32>
    %be = tensor.empty() : tensor<16x32xf32>
    %b = linalg.broadcast ins(%sum : tensor<16xf32>) outs(%be : tensor<16x32xf32>) dimensions = [1]
    %r = arith.divf %acc, %b : tensor<16x32xf32>
    %out = arith.truncf %r : tensor<16x32xf32> to tensor<16x32xf16>
    %yt = ktdp.construct_access_tile %ys[%first, %c0] : memref<48x32xf16> -> !ktdp.access_tile<16x32xindex>
    ktdp.store %out, %yt : tensor<16x32xf16>, !ktdp.access_tile<16x32xindex>
    return
  }
}
