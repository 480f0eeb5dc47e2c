//go:build !linux

package command

import (
	"io"
	"syscall"
)

// terminal is not given to commands here: one that reads it is stopped.
type terminal struct{}

func ownTerminal(io.Reader, io.Writer) *terminal { return nil }

func (*terminal) begins(*syscall.SysProcAttr) {}
func (*terminal) back(bool)                   {}
func (*terminal) paused(int)                  {}
