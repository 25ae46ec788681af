module { func.func @f(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %h = arith.constant 0.5 : f32
  %t = tensor.from_elements %h, %h : tensor<3xf32>
  return
} }
