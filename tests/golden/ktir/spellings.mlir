// What MLIR's tools print and no kernel means anything by: locations, attributes of other dialects,
// flags; lists with types.
#loc = loc("kernel.py":1:1)
#map = affine_map<(d0, d1) -> (d0, d1)>
module @kernels attributes {dlti.target = #dlti<"a", [1 : i32, 2]>} {
  func.func public @add_one(%arg0: index {tt.divisibility = 16 : i32} loc("x"(#loc)), %arg1: index) attributes {noinline = false, grid = array<i64: 2>, tt.warps = 4} {
    %c0 = arith.constant 0 : index loc(#loc)
    %cst = arith.constant 1.000000e+00 : f32 loc(unknown)
    %0 = ktdp.get_compute_tile_id : index loc(callsite("f"(#loc) at "g"(#loc)))
    %x = ktdp.construct_memory_view %arg0, sizes: [2, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<2x64xf32> loc(fused<"a">["b", "c.py":3:4])
    %y = ktdp.construct_memory_view %arg1, sizes: [2, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<2x64xf32>
    %from = ktdp.construct_access_tile %x[%0, %c0] {access_tile_order = #map} : memref<2x64xf32> -> !ktdp.access_tile<1x64xindex>
    %to = ktdp.construct_access_tile %y[%0, %c0] : memref<2x64xf32> -> !ktdp.access_tile<1x64xindex>
    %1 = ktdp.load %from : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf32> loc("k":3:4)
    %2 = arith.addi %0, %c0 overflow<nsw, nuw> {tt.known} : index
    %3 = tensor.splat %cst : tensor<1x64xf32>
    %4 = arith.addf %1, %3 fastmath<nnan, contract> : tensor<1x64xf32>
    ktdp.store %4, %to : tensor<1x64xf32>, !ktdp.access_tile<1x64xindex>
    return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc(unknown)
