module {
	func.func @f() {
		sdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json"}
		return
	}
}
