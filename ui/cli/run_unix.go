//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// keepFromCommands reports whether a descriptor is open, and has no command
// inherit it.
func keepFromCommands(fd int) bool {
	var info syscall.Stat_t
	if fd < 0 || syscall.Fstat(fd, &info) != nil {
		return false
	}
	if fd > 2 {
		syscall.CloseOnExec(fd)
	}
	return true
}

// tellInterrupt has the script that this is a part of hear of the interrupt too.
func tellInterrupt() {
	signal.Ignore(syscall.SIGINT)
	_ = syscall.Kill(0, syscall.SIGINT)
}
