module { func.func @f(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = tensor.empty() : tensor<4x8xi8>
  %b = tensor.empty() : tensor<8x4xi8>
  %c = tensor.empty() : tensor<4x4xf32>
  %u = linalg.matmul ins(%a, %b : tensor<4x8xi8>, tensor<8x4xi8>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
  return
} }
