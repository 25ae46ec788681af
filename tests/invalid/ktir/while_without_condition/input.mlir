module { func.func @f(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.while (%i = %c0) : (index) -> (index) {
    scf.yield %i : index
  } do {
  ^bb0(%j: index):
    scf.yield %j : index
  }
  return
} }
