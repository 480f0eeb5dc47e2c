//go:build unix && !linux

package record

import "syscall"

// ownGroup puts the command into a process group of its own. Without a
// parent-death signal only the guard process ends it when this one dies.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func awaitExit(int) bool { return false }

func hasExited(int) bool { return false }
