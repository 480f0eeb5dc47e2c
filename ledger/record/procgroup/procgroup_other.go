//go:build unix && !linux

package procgroup

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// AwaitExit reports that it cannot wait without collecting: that is left to
// exec.Cmd.Wait. A command that was stopped is not noticed.
func (g *Group) AwaitExit(func()) bool { return false }

// Exited reports that nothing is known before exec.Cmd.Wait has returned.
func (g *Group) Exited() bool { return false }
