module {
	func.func @sdsc_bundle(%n: !sdscbundle.input_arg<index, granularity=2, max_value=8>, %n_base: !sdscbundle.input_arg<index, granularity=2, max_value=8>) {
		return
	}
}
