module {
	func.func @sdsc_bundle(%n_base: !sdscbundle.input_arg<index, granularity=2, max_value=8>) {
		%n = sdscbundle.input_arg_extract value from %n_base : !sdscbundle.input_arg<index, granularity=2, max_value=8> -> index
		sdscbundle.sdsc_execute (%n) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1]}
		return
	}
}
