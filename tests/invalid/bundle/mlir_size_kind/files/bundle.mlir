module {
	func.func @sdsc_bundle(%n_base: !sdscbundle.input_arg<index, granularity=2, most=8>) {
		return
	}
}
