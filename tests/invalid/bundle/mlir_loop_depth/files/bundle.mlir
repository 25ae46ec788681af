module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>) {
		%a = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%c0 = arith.constant 0 : index
		%c1 = arith.constant 1 : index
		scf.for %i0 = %c0 to %c1 step %c1 {
		scf.for %i1 = %c0 to %c1 step %c1 {
		scf.for %i2 = %c0 to %c1 step %c1 {
		scf.for %i3 = %c0 to %c1 step %c1 {
		scf.for %i4 = %c0 to %c1 step %c1 {
		}
		}
		}
		}
		}
		return
	}
}
