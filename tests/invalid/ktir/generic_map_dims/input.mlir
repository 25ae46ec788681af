// Every operation of scf, slices, a region over elements, integers, comparisons, casts.
#same = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
module {
  func.func @flow(%x: index, %y: index, %n: i32) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %xs = ktdp.construct_memory_view %x, sizes: [4, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<4x64xf32>
    %ys = ktdp.construct_memory_view %y, sizes: [8, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<8x64xf32>
    %part = memref.subview %ys[4, 0] [4, 64] [1, 1] : memref<8x64xf32> to memref<4x64xf32, strided<[64, 1], offset: 256>>
    %xt = ktdp.construct_access_tile %xs[%c0, %c0] : memref<4x64xf32> -> !ktdp.access_tile<4x64xindex>
    %yt = ktdp.construct_access_tile %part[%c0, %c0] : memref<4x64xf32, strided<[64, 1], offset: 256>> -> !ktdp.access_tile<4x64xindex>
    %v = ktdp.load %xt : !ktdp.access_tile<4x64xindex> -> tensor<4x64xf32>
    %zero = arith.constant dense<0.0> : tensor<4x64xf32>
    %positive = arith.cmpf ogt, %v, %zero : tensor<4x64xf32>
    %kept = arith.select %positive, %v, %zero : tensor<4x64xi1>, tensor<4x64xf32>
    %empty = tensor.empty() : tensor<4x64xf32>
    %numbered = linalg.generic {indexing_maps = [#row, #same], iterator_types = ["parallel", "parallel"]} ins(%kept : tensor<4x64xf32>) outs(%empty : tensor<4x64xf32>) {
    ^bb0(%e: f32, %o: f32):
      %i = linalg.index 0 : index
      %i32 = arith.index_cast %i : index to i32
      %f = arith.sitofp %i32 : i32 to f32
      %s = arith.addf %e, %f : f32
      linalg.yield %s : f32
    } -> tensor<4x64xf32>
    %doubled = linalg.map { arith.addf } ins(%numbered, %numbered : tensor<4x64xf32>, tensor<4x64xf32>) outs(%empty : tensor<4x64xf32>) -> tensor<4x64xf32>
    %two = tensor.extract_slice %doubled[1, 0] [2, 64] [1, 1] : tensor<4x64xf32> to tensor<2x64xf32>
    %back = tensor.insert_slice %two into %numbered[0, 0] [2, 64] [1, 1] : tensor<2x64xf32> into tensor<4x64xf32>
    %start = arith.constant 0.0 : f32
    %total = scf.parallel (%p, %q) = (%c0, %c0) to (%c4, %c4) step (%c1, %c1) init (%start) -> (f32) {
      %at = tensor.extract %back[%p, %q] : tensor<4x64xf32>
      scf.reduce(%at : f32) {
      ^bb0(%l: f32, %r: f32):
        %sum = arith.addf %l, %r : f32
        scf.reduce.return %sum : f32
      }
    }
    scf.forall (%p) in (%c4) {
      %one = ktdp.construct_access_tile %ys[%p, %c0] : memref<8x64xf32> -> !ktdp.access_tile<1x64xindex>
      %fill = tensor.splat %total : tensor<1x64xf32>
      ktdp.store %fill, %one : tensor<1x64xf32>, !ktdp.access_tile<1x64xindex>
    }
    %limit = arith.constant -3 : i32
    %small = arith.cmpi slt, %n, %limit : i32
    %chosen = scf.if %small -> (tensor<4x64xf32>) {
      scf.yield %back : tensor<4x64xf32>
    } else {
      %negative = arith.negf %back : tensor<4x64xf32>
      scf.yield %negative : tensor<4x64xf32>
    }
    ktdp.store %chosen, %yt : tensor<4x64xf32>, !ktdp.access_tile<4x64xindex>
    return
  }
}
