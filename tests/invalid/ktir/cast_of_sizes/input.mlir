module { func.func @f(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = tensor.empty() : tensor<4x8xf32>
  %u = tensor.cast %t : tensor<4x8xf32> to tensor<4x9xf32>
  return
} }
