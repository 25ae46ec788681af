// Numbers of cores and iterations as elements: floats of them, negative ones, offsets of a block that
// are compared with a bound.
#line = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @numbers(%y: index, %z: index) attributes {grid = [4]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c70000 = arith.constant 70000 : index
    %first = arith.constant -5 : index
    %pid = ktdp.get_compute_tile_id : index
    %ys = ktdp.construct_memory_view %y, sizes: [12, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<12x64xf32>
    %zs = ktdp.construct_memory_view %z, sizes: [12, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<12x64xi32>
    %none = tensor.empty() : tensor<1x64xi32>
    scf.for %i = %c0 to %c3 step %c1 {
      %block = arith.muli %pid, %c70000 : index
      %back = arith.muli %i, %c3 : index
      %moved = arith.addi %block, %first : index
      %at = arith.subi %moved, %back : index
      %number = arith.index_cast %at : index to i32
      %float = arith.sitofp %number : i32 to f32
      %floats = tensor.splat %float : tensor<1x64xf32>
      %starts = tensor.splat %number : tensor<1x64xi32>
      %lanes = linalg.generic {indexing_maps = [#line], iterator_types = ["parallel", "parallel"]} outs(%none : tensor<1x64xi32>) {
      ^bb0(%o: i32):
        %j = linalg.index 1 : index
        %k = arith.index_cast %j : index to i32
        linalg.yield %k : i32
      } -> tensor<1x64xi32>
      %offsets = arith.addi %starts, %lanes : tensor<1x64xi32>
      %bound = arith.constant dense<140000> : tensor<1x64xi32>
      %inside = arith.cmpi slt, %offsets, %bound : tensor<1x64xi32>
      %zero = arith.constant dense<0> : tensor<1x64xi32>
      %masked = arith.select %inside, %offsets, %zero : tensor<1x64xi1>, tensor<1x64xi32>
      %base = arith.muli %pid, %c3 : index
      %row = arith.addi %base, %i : index
      %yt = ktdp.construct_access_tile %ys[%row, %c0] : memref<12x64xf32> -> !ktdp.access_tile<1x64xindex>
      %zt = ktdp.construct_access_tile %zs[%row, %c0] : memref<12x64xi32> -> !ktdp.access_tile<1x64xindex>
      ktdp.store %floats, %yt : tensor<1x64xf32>, !ktdp.access_tile<1x64xindex>
      ktdp.store %masked, %zt : tensor<1x64xi32>, !ktdp.access_tile<1x64xindex>
    }
    return
  }
}
