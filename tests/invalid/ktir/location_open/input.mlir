module {
  func.func @f() {
    return loc("a":1:2
  }
}
