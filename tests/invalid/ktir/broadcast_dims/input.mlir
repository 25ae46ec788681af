// Mean and largest element of each row, and the rows without them: reductions of every spelling.
module {
  func.func @rows(%x: index, %y: index) attributes {grid = [2, 2]} {
    %i, %j = ktdp.get_compute_tile_id : index, index
    %two = arith.constant 2 : index
    %c0 = arith.constant 0 : index
    %scaled = arith.muli %j, %two : index
    %row = arith.addi %scaled, %i : index
    %xs = ktdp.construct_memory_view %x, sizes: [4, 128], strides: [128, 1] {memory_space = #ktdp.memory_space<global>} : memref<4x128xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [4, 128], strides: [128, 1] {memory_space = #ktdp.memory_space<global>} : memref<4x128xf16>
    %xt = ktdp.construct_access_tile %xs[%row, %c0] : memref<4x128xf16> -> !ktdp.access_tile<1x128xindex>
    %yt = ktdp.construct_access_tile %ys[%row, 0] : memref<4x128xf16> -> !ktdp.access_tile<1x128xindex>
    %v = ktdp.load %xt : !ktdp.access_tile<1x128xindex> -> tensor<1x128xf16>
    %low = arith.constant 0xFC00 : f16
    %lows = tensor.splat %low : tensor<1xf16>
    %top = linalg.reduce { arith.maximumf } ins(%v : tensor<1x128xf16>) outs(%lows : tensor<1xf16>) dimensions = [1] -> tensor<1xf16>
    %zero = arith.constant 0.0 : f16
    %empty = tensor.empty() : tensor<1xf16>
    %zeros = linalg.fill ins(%zero : f16) outs(%empty : tensor<1xf16>) -> tensor<1xf16>
    %sum = linalg.reduce ins(%v : tensor<1x128xf16>) outs(%zeros : tensor<1xf16>) dimensions = [1] (%a: f16, %b: f16) {
      %s = arith.addf %a, %b : f16
      linalg.yield %s : f16
    } -> tensor<1xf16>
    %count = arith.constant dense<128.0> : tensor<1xf16>
    %mean = arith.divf %sum, %count : tensor<1xf16>
    %both = arith.addf %mean, %top : tensor<1xf16>
    %wide = tensor.empty() : tensor<1x128xf16>
    %spread = linalg.broadcast ins(%both : tensor<1xf16>) outs(%wide : tensor<1x128xf16>) dimensions = [0, 1] -> tensor<1x128xf16>
    %rest = linalg.sub ins(%v, %spread : tensor<1x128xf16>, tensor<1x128xf16>) outs(%wide : tensor<1x128xf16>) -> tensor<1x128xf16>
    ktdp.store %rest, %yt : tensor<1x128xf16>, !ktdp.access_tile<1x128xindex>
    return
  }
}
