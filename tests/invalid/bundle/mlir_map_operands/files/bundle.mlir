#map_0 = affine_map<(d0)[s0] -> (s0 + 2*d0)>
module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>) {
		%a = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%x = affine.apply #map_0()[%a]
		return
	}
}
