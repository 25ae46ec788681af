#map_0 = affine_map<(d0)[s0] -> (s0 + 2*d1)>
module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>) {
		return
	}
}
