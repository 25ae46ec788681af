#map_0 = affine_map<(d0)[s0] -> (s0 + 256*d0)>
module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>, %arg_2_base_addr: !sdscbundle.input_arg<index>, %rows_base: !sdscbundle.input_arg<index, granularity=4, max_value=12>) {
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_2 = sdscbundle.input_arg_extract value from %arg_2_base_addr : !sdscbundle.input_arg<index> -> index
		%size_0 = sdscbundle.input_arg_extract value from %rows_base : !sdscbundle.input_arg<index, granularity=4, max_value=12> -> index
		%c0 = arith.constant 0 : index
		%c1 = arith.constant 1 : index
		%loop_step_0 = arith.constant 2 : index
		%arg_0_core_offset_1536 = arith.constant 1536 : index
		%arg_0_core_1536 = arith.addi %arg_0, %arg_0_core_offset_1536 : index
		%arg_2_core_offset_1536 = arith.constant 1536 : index
		%arg_2_core_1536 = arith.addi %arg_2, %arg_2_core_offset_1536 : index
		%arg_2_core_offset_256 = arith.constant 256 : index
		%arg_2_core_256 = arith.addi %arg_2, %arg_2_core_offset_256 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_1536, %arg_1, %arg_2, %arg_2_core_1536, %size_0) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4, -5, -6]}
		scf.for %i_0 = %c0 to %size_0 step %loop_step_0 {
			%addr_0 = affine.apply #map_0(%i_0)[%arg_2]
			%addr_1 = affine.apply #map_0(%i_0)[%arg_2_core_256]
			%addr_2 = affine.apply #map_0(%i_0)[%arg_2]
			%addr_3 = affine.apply #map_0(%i_0)[%arg_2_core_256]
			sdscbundle.sdsc_execute (%addr_0, %addr_1, %addr_2, %addr_3) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-7, -8, -9, -10]}
		}
		return
	}
}
