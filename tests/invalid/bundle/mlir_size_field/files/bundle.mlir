module {
	func.func @sdsc_bundle(%n_base: !sdscbundle.input_arg<index, granularity=2, max_value=8>) {
		%n = sdscbundle.input_arg_extract least from %n_base : !sdscbundle.input_arg<index, granularity=2, max_value=8> -> index
		return
	}
}
