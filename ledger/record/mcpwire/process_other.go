//go:build unix && !linux

package mcpwire

import "syscall"

// ownGroup puts the server into a process group of its own, so that a signal at
// the terminal does not reach it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func awaitExit(int) bool { return false }
