//go:build !unix

package cli

func keepFromCommands(int) bool { return false }

func tellInterrupt() {}
