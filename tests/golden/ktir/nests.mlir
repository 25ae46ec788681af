// scf.parallel that reduces: tensors, in a loop, by a region that takes its operands twice; numbers;
// no iteration at all.
module {
  func.func @nests(%x: index, %y: index) attributes {grid = [3]} {
    %pid = ktdp.get_compute_tile_id : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %xs = ktdp.construct_memory_view %x, sizes: [16, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<16x64xf16>
    %ys = ktdp.construct_memory_view %y, sizes: [9, 64], strides: [64, 1] {memory_space = #ktdp.memory_space<global>} : memref<9x64xf16>
    %one = arith.constant dense<1.0> : tensor<1x64xf16>
    %half = arith.constant dense<0.5> : tensor<1x64xf16>
    scf.for %k = %c0 to %c2 step %c1 {
      %sum = scf.parallel (%i, %j) = (%c0, %c0) to (%c4, %c4) step (%c2, %c1) init (%one) -> (tensor<1x64xf16>) {
        %a = arith.muli %k, %c4 : index
        %b = arith.addi %a, %i : index
        %row = arith.addi %b, %j : index
        %at = ktdp.construct_access_tile %xs[%row, %c0] : memref<16x64xf16> -> !ktdp.access_tile<1x64xindex>
        %v = ktdp.load %at : !ktdp.access_tile<1x64xindex> -> tensor<1x64xf16>
        scf.reduce(%v : tensor<1x64xf16>) {
        ^bb0(%l: tensor<1x64xf16>, %r: tensor<1x64xf16>):
          %scaled = arith.mulf %r, %half : tensor<1x64xf16>
          %most = arith.maximumf %l, %scaled : tensor<1x64xf16>
          %next = arith.subf %most, %r : tensor<1x64xf16>
          scf.reduce.return %next : tensor<1x64xf16>
        }
      }
      %p = arith.muli %pid, %c2 : index
      %q = arith.addi %p, %k : index
      %to = ktdp.construct_access_tile %ys[%q, %c0] : memref<9x64xf16> -> !ktdp.access_tile<1x64xindex>
      ktdp.store %sum, %to : tensor<1x64xf16>, !ktdp.access_tile<1x64xindex>
    }
    %count = scf.parallel (%i) = (%c0) to (%c4) step (%c1) init (%c2) -> (index) {
      scf.reduce(%i : index) {
      ^bb0(%l: index, %r: index):
        %m = arith.addi %l, %r : index
        scf.reduce.return %m : index
      }
    }
    %none = scf.parallel (%i) = (%c4) to (%c0) step (%c1) init (%half) -> (tensor<1x64xf16>) {
      scf.reduce(%one : tensor<1x64xf16>) {
      ^bb0(%l: tensor<1x64xf16>, %r: tensor<1x64xf16>):
        scf.reduce.return %r : tensor<1x64xf16>
      }
    }
    %back = arith.subi %count, %c2 : index
    %place = arith.addi %back, %pid : index
    %to = ktdp.construct_access_tile %ys[%place, %c0] : memref<9x64xf16> -> !ktdp.access_tile<1x64xindex>
    ktdp.store %none, %to : tensor<1x64xf16>, !ktdp.access_tile<1x64xindex>
    return
  }
}
