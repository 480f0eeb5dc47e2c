//go:build unix

package mcpwire

import "syscall"

// signalGroup signals a whole process group; one that is gone is no error.
func signalGroup(leader int, s syscall.Signal) { _ = syscall.Kill(-leader, s) }
