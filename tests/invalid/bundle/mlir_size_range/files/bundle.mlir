module {
	func.func @sdsc_bundle(%n_base: !sdscbundle.input_arg<index, granularity=2, max_value=7>) {
		return
	}
}
