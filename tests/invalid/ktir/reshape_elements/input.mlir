// All compute tiles of a group add their rows; the first one of each group writes the sum.
#tiles = affine_set<(i)[g] : (i - 2*g >= 0, -i + 2*g + 1 >= 0)>
#groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
module {
  func.func @everybody(%x: index, %y: index) attributes {grid = [4]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %xs = ktdp.construct_memory_view %x, sizes: [4, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<4x64xf32>
    %ys = ktdp.construct_memory_view %y, sizes: [2, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<2x64xf32>
    %xt = ktdp.construct_access_tile %xs[%pid, %c0] : memref<4x64xf32> -> !ktdp.access_tile<1x64xindex>
    %v = ktdp.load %xt : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf32>
    %all = ktdp.inter_tile_produce producer_tiles_per_group = #tiles -> !ktdp.tile_future<tensor<1x64xf32>, groups = #groups> {
    ^bb0(%g: index):
      ktdp.yield_partial %v : tensor<1x64xf32>
    }
    %zeros = arith.constant dense<0.0> : tensor<1x64xf32>
    %sum = ktdp.inter_tile_reduce(%all) consumer_tiles_per_group = #tiles, identity(%zeros : tensor<1x64xf32>) : !ktdp.tile_future<tensor<1x64xf32>, groups = #groups> -> tensor<64xf32> {
    ^bb0(%a: tensor<1x64xf32>, %b: tensor<1x64xf32>):
      %s = arith.addf %a, %b : tensor<1x64xf32>
      ktdp.yield_reduced %s : tensor<1x64xf32>
    }
    %lane = arith.remui %pid, %c2 : index
    %first = arith.cmpi eq, %lane, %c0 : index
    scf.if %first {
      %group = arith.divui %pid, %c2 : index
      %flat = tensor.expand_shape %sum [[0, 1]] output_shape [1, 32] : tensor<64xf32> into tensor<1x32xf32>
      %yt = ktdp.construct_access_tile %ys[%group, %c0] : memref<2x64xf32> -> !ktdp.access_tile<1x64xindex>
      ktdp.store %flat, %yt : tensor<1x64xf32>, !ktdp.access_tile<1x64xindex>
    }
    return
  }
}
