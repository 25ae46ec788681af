module {
	func.func @sdsc_bundle(%pool_base_addr: !sdscbundle.input_arg<index>, %arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>, %arg_2_base_addr: !sdscbundle.input_arg<index>, %arg_3_base_addr: !sdscbundle.input_arg<index>, %arg_4_base_addr: !sdscbundle.input_arg<index>, %arg_5_base_addr: !sdscbundle.input_arg<index>, %arg_6_base_addr: !sdscbundle.input_arg<index>) {
		%pool = sdscbundle.input_arg_extract value from %pool_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_2 = sdscbundle.input_arg_extract value from %arg_2_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_3 = sdscbundle.input_arg_extract value from %arg_3_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_4 = sdscbundle.input_arg_extract value from %arg_4_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_5 = sdscbundle.input_arg_extract value from %arg_5_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_6 = sdscbundle.input_arg_extract value from %arg_6_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_0_core_offset_128 = arith.constant 128 : index
		%arg_0_core_128 = arith.addi %arg_0, %arg_0_core_offset_128 : index
		%arg_1_core_offset_256 = arith.constant 256 : index
		%arg_1_core_256 = arith.addi %arg_1, %arg_1_core_offset_256 : index
		%arg_1_core_offset_384 = arith.constant 384 : index
		%arg_1_core_384 = arith.addi %arg_1, %arg_1_core_offset_384 : index
		%pool_offset_0 = arith.constant 0 : index
		%pool_addr_0 = arith.addi %pool, %pool_offset_0 : index
		%pool_offset_128 = arith.constant 128 : index
		%pool_addr_128 = arith.addi %pool, %pool_offset_128 : index
		%arg_5_core_offset_256 = arith.constant 256 : index
		%arg_5_core_256 = arith.addi %arg_5, %arg_5_core_offset_256 : index
		%arg_5_core_offset_384 = arith.constant 384 : index
		%arg_5_core_384 = arith.addi %arg_5, %arg_5_core_offset_384 : index
		%arg_6_core_offset_128 = arith.constant 128 : index
		%arg_6_core_128 = arith.addi %arg_6, %arg_6_core_offset_128 : index
		sdscbundle.sdsc_execute (%arg_0, %arg_0_core_128, %arg_1_core_256, %arg_1_core_384, %pool_addr_0, %pool_addr_128) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4, -5, -6]}
		sdscbundle.sdsc_execute (%pool_addr_0, %pool_addr_128, %arg_5_core_256, %arg_5_core_384, %arg_6, %arg_6_core_128) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-7, -8, -9, -10, -11, -12]}
		return
	}
}
