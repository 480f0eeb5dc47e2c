//go:build unix

package procgroup

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Group is a command that was started, with what it has started.
type Group struct {
	leader int
	scope  Scope
}

// Of is the group of a command that another process has started.
func Of(id int, scope Scope) *Group { return &Group{id, scope} }

// Widen says what belongs to the command beside its group.
func (g *Group) Widen(scope Scope) { g.scope = scope }

// Prepare has a command start in a group of its own, so that a signal at the
// terminal does not reach it.
func Prepare(cmd *exec.Cmd) { cmd.SysProcAttr = attributes() }

// Start starts a command that Prepare has seen. The thread that calls it has to
// live as long as the command: Linux ties the two together.
func Start(cmd *exec.Cmd) (*Group, error) {
	if cmd.SysProcAttr == nil || !cmd.SysProcAttr.Setpgid {
		return nil, errNotOwn
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Group{leader: cmd.Process.Pid}, nil
}

// ID names the group to a process that guards it.
func (g *Group) ID() int { return g.leader }

// Kill ends at once the whole group and what else is known to belong to it.
// What is gone is no error.
func (g *Group) Kill() {
	g.killGroup()
	g.signalRest(syscall.SIGKILL)
}

func (g *Group) killGroup() { g.Signal(syscall.SIGKILL) }

// Terminate asks them to end.
func (g *Group) Terminate() {
	g.Signal(syscall.SIGTERM)
	g.Signal(syscall.SIGCONT) // a stopped one must hear it
	g.signalRest(syscall.SIGTERM, syscall.SIGCONT)
}

// Signal passes a signal on to the whole group.
func (g *Group) Signal(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok && g.leader > 1 { // 0 and 1 would be this process's own, and all
		_ = syscall.Kill(-g.leader, n)
	}
}

// Release lets what is left of the group go its own way.
func (g *Group) Release() {}

// EndedBy names the signal that ended the command, "SIGKILL", or is "" for one
// that ended by itself.
func (g *Group) EndedBy(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return unix.SignalName(status.Signal())
	}
	return ""
}
