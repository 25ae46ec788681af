// What front-ends leave behind: scf.while, affine maps of numbers, sizes of tensors, casts of
// shapes, tensors of numbers, and functions that are there for completeness.
#later = affine_map<(d0)[s0] -> (d0 * 2 + s0)>
module {
  func.func @lowered(%x: index, %out: index, %n: index) attributes {grid = [4]} {
    %id = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %xs = ktdp.construct_memory_view %x, sizes: [16, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<16x64xf16>
    %os = ktdp.construct_memory_view %out, sizes: [16, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<16x64xf16>
    %row = affine.apply affine_map<(d0) -> (d0 * 4)>(%id)
    %far = affine.apply #later(%id)[%n]
    %most = affine.min affine_map<(d0)[s0] -> (d0 + 1, s0, 3)>(%far)[%n]
    %least = affine.max affine_map<(d0) -> (d0 floordiv 2, 1)>(%id)
    %zero = arith.constant dense<0.0> : tensor<1x64xf16>
    // As often as `most`, which differs between cores; rows swap places.
    %r:3 = scf.while (%i = %c0, %a = %zero, %b = %zero) : (index, tensor<1x64xf16>, tensor<1x64xf16>) -> (index, tensor<1x64xf16>, tensor<1x64xf16>) {
      %go = arith.cmpi slt, %i, %most : index
      scf.condition(%go) %i, %b, %a : index, tensor<1x64xf16>, tensor<1x64xf16>
    } do {
    ^bb0(%j: index, %u: tensor<1x64xf16>, %v: tensor<1x64xf16>):
      %t = ktdp.construct_access_tile %xs[%row + %j, %c0] : memref<16x64xf16> -> !ktdp.access_tile<1x64xindex>
      %l = ktdp.load %t : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf16>
      %w = arith.addf %u, %l : tensor<1x64xf16>
      %k = arith.addi %j, %c1 : index
      scf.yield %k, %w, %v : index, tensor<1x64xf16>, tensor<1x64xf16>
    }
    %open = tensor.cast %r#1 : tensor<1x64xf16> to tensor<?x64xf16>
    %rows = tensor.dim %open, %c0 : tensor<?x64xf16>
    %known = tensor.cast %open : tensor<?x64xf16> to tensor<1x64xf16>
    %near = math.round %r#2 : tensor<1x64xf16>
    %is = math.isnan %near : tensor<1x64xf16>
    %always = arith.cmpf true, %near, %known : tensor<1x64xf16>
    %never = arith.cmpf false, %near, %known : tensor<1x64xf16>
    %p = arith.select %always, %known, %near : tensor<1x64xi1>, tensor<1x64xf16>
    %q = arith.select %never, %known, %near : tensor<1x64xi1>, tensor<1x64xf16>
    %s = arith.select %is, %zero, %q : tensor<1x64xi1>, tensor<1x64xf16>
    %lane = tensor.extract %known[%c0, %c2] : tensor<1x64xf16>
    %half = arith.constant 0.5 : f16
    %few = tensor.from_elements %lane, %half : tensor<2xf16>
    %one = tensor.extract %few[%c0] : tensor<2xf16>
    %other = tensor.extract %few[%c1] : tensor<2xf16>
    %sum = arith.addf %one, %other : f16
    %all = tensor.splat %sum : tensor<1x64xf16>
    %y = arith.addf %p, %s : tensor<1x64xf16>
    %z = arith.addf %y, %all : tensor<1x64xf16>
    scf.for %m = %c0 to %rows step %c1 {
      %to = affine.apply affine_map<(d0, d1, d2) -> (d0 + d1 + d2)>(%row, %m, %least)
      %ot = ktdp.construct_access_tile %os[%to, %c0] : memref<16x64xf16> -> !ktdp.access_tile<1x64xindex>
      ktdp.store %z, %ot : tensor<1x64xf16>, !ktdp.access_tile<1x64xindex>
    }
    %it = ktdp.construct_access_tile %os[%row, %c0] : memref<16x64xf16> -> !ktdp.access_tile<1x64xindex>
    %count = arith.index_cast %r#0 : index to i32
    %real = arith.sitofp %count : i32 to f16
    %counts = tensor.splat %real : tensor<1x64xf16>
    ktdp.store %counts, %it : tensor<1x64xf16>, !ktdp.access_tile<1x64xindex>
    return
  }
}
