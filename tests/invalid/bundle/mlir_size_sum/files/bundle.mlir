module {
	func.func @sdsc_bundle(%n_base: !sdscbundle.input_arg<index, granularity=2, max_value=8>) {
		%n = sdscbundle.input_arg_extract value from %n_base : !sdscbundle.input_arg<index, granularity=2, max_value=8> -> index
		%x = arith.addi %n, %n : index
		return
	}
}
