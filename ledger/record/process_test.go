package record

func runRole() int   { return 1 }
func beginRole() int { return 1 }
