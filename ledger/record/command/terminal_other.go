//go:build !linux

package command

import (
	"io"
	"os/exec"
)

// terminal is not given to commands here: one that reads it is stopped.
type terminal struct{}

func ownTerminal(io.Reader, io.Writer, []string) *terminal { return nil }

func (*terminal) holds(*exec.Cmd)         {}
func (*terminal) back(bool)               {}
func (*terminal) paused(int)              {}
func (*terminal) joins(int) int           { return 0 }
func (*terminal) neverBegan(string) error { return nil }
func (*terminal) asked() string           { return "" }
