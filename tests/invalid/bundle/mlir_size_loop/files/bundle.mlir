module {
	func.func @sdsc_bundle(%n_base: !sdscbundle.input_arg<index, granularity=2, max_value=8>) {
		%n = sdscbundle.input_arg_extract value from %n_base : !sdscbundle.input_arg<index, granularity=2, max_value=8> -> index
		%c0 = arith.constant 0 : index
		%c3 = arith.constant 3 : index
		scf.for %i = %c0 to %n step %c3 {
		}
		return
	}
}
