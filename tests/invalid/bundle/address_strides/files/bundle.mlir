#map_1 = affine_map<(d0, d1)[s0] -> (s0 + 512*d0 + 128*d1)>
#map_0 = affine_map<(d0, d1)[s0] -> (s0 + 512*d0 + 256*d1)>
module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%c0 = arith.constant 0 : index
		%c1 = arith.constant 1 : index
		%loop_bound_0 = arith.constant 3 : index
		%loop_bound_1 = arith.constant 2 : index
		%arg_0_core_offset_128 = arith.constant 128 : index
		%arg_0_core_128 = arith.addi %arg_0, %arg_0_core_offset_128 : index
		%arg_1_core_offset_128 = arith.constant 128 : index
		%arg_1_core_128 = arith.addi %arg_1, %arg_1_core_offset_128 : index
		%arg_1_core_offset_2048 = arith.constant 2048 : index
		%arg_1_core_2048 = arith.addi %arg_1, %arg_1_core_offset_2048 : index
		%arg_1_core_offset_2176 = arith.constant 2176 : index
		%arg_1_core_2176 = arith.addi %arg_1, %arg_1_core_offset_2176 : index
		scf.for %i_0 = %c0 to %loop_bound_0 step %c1 {
			scf.for %i_1 = %c0 to %loop_bound_1 step %c1 {
				%addr_0 = affine.apply #map_0(%i_0, %i_1)[%arg_0]
				%addr_1 = affine.apply #map_1(%i_0, %i_1)[%arg_0_core_128]
				%addr_2 = affine.apply #map_0(%i_0, %i_1)[%arg_1]
				%addr_3 = affine.apply #map_0(%i_0, %i_1)[%arg_1_core_128]
				sdscbundle.sdsc_execute (%addr_0, %addr_1, %addr_2, %addr_3) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4]}
			}
		}
		sdscbundle.sdsc_execute (%arg_1, %arg_1_core_128, %arg_1_core_2048, %arg_1_core_2176) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-5, -6, -7, -8]}
		return
	}
}
