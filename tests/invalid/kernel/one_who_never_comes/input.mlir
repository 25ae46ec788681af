#groups = affine_set<(g) : (g == 0)>
#tiles = affine_set<(p)[g] : (p >= 0, p <= 1, g == 0)>
module { func.func @f(%x: index, %n: index) attributes {grid = [2]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %id = ktdp.get_compute_tile_id : index
  %v = ktdp.construct_memory_view %x, sizes: [8, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>
  %i = arith.index_cast %id : index to i32
  %f = arith.sitofp %i : i32 to f16
  %s = tensor.splat %f : tensor<1x64xf16>
  %is = arith.cmpi eq, %id, %c0 : index
  scf.if %is {
    %p = ktdp.inter_tile_produce producer_tiles_per_group = #tiles -> !ktdp.tile_future<tensor<1x64xf16>, groups = #groups> {
      ^bb0(%g: index):
      ktdp.yield_partial %s : tensor<1x64xf16>
    }
    %r = ktdp.inter_tile_reduce(%p) consumer_tiles_per_group = #tiles : !ktdp.tile_future<tensor<1x64xf16>, groups = #groups> -> tensor<1x64xf16> {
    ^bb0(%l: tensor<1x64xf16>, %q: tensor<1x64xf16>):
      %z = arith.addf %l, %q : tensor<1x64xf16>
      ktdp.yield_reduced %z : tensor<1x64xf16>
    }
  }
  return
} }
