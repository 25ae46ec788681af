module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>) {
		%x = arith.constant 9223372036854775807 : index
		%y = arith.addi %x, %x
		return
	}
}
