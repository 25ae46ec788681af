module { func.func @f(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = affine.apply affine_map<(d0) -> (d0, d0 + 1)>(%c0)
  return
} }
