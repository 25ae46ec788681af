module {
	return
}
