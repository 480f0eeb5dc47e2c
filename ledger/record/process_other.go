//go:build unix && !linux

package record

import (
	"io"
	"syscall"
)

// ownGroup puts the command into a process group of its own. Without a
// parent-death signal only the guard process ends it when this one dies.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func awaitExit(int, func()) bool { return false }

func hasExited(int) bool { return false }

// terminal is not given to commands here: one that reads it is stopped.
type terminal struct{}

func ownTerminal(io.Reader, io.Writer) *terminal { return nil }

func (*terminal) begins(*syscall.SysProcAttr) {}
func (*terminal) back(bool)                   {}
func (*terminal) paused(int)                  {}
