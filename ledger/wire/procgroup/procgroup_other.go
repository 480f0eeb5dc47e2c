//go:build unix && !linux

package procgroup

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Adopt reports that no process here becomes the parent of orphans.
func Adopt() bool { return false }

// AwaitExit reports that it cannot wait without collecting: that is left to
// exec.Cmd.Wait. A command that was stopped is not noticed.
func (g *Group) AwaitExit(func()) bool { return false }

// Exited reports that nothing is known before exec.Cmd.Wait has returned.
func (g *Group) Exited() bool { return false }

// EndedBadly reports that nothing is known before exec.Cmd.Wait has returned.
func (g *Group) EndedBadly() bool { return false }

// Ending is not known before exec.Cmd.Wait has returned.
func (g *Group) Ending() string { return "" }

// Reap has nothing to do: nothing is adopted.
func (g *Group) Reap() {}

// Left is the process group as a whole: only that can be told here.
func (g *Group) Left() ([]Process, error) {
	if g.leader <= 1 || syscall.Kill(-g.leader, 0) == syscall.ESRCH {
		return nil, nil
	}
	return []Process{{PID: g.leader, UID: -1, Name: "process group"}}, nil
}

func (g *Group) signalRest(...syscall.Signal) {}

func (g *Group) kill([]Process) { g.killGroup() }
