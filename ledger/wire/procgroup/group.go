package procgroup

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Group is a started command and the processes it has started.
type Group struct {
	leader int
	scope  Scope
}

// Of returns the group of a command that another process has started.
func Of(id int, scope Scope) *Group { return &Group{id, scope} }

// Widen sets which processes belong to the command beside its group.
func (g *Group) Widen(scope Scope) { g.scope = scope }

// Prepare makes a command start in its own group, so that a signal from the
// terminal does not reach it.
func Prepare(cmd *exec.Cmd) { cmd.SysProcAttr = attributes() }

// Start starts a prepared command. The calling thread has to live as long as the
// command: Linux kills the command when the thread ends.
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

// Kill ends the group and all other processes known to belong to it, at once. A
// process that has ended already is not an error.
func (g *Group) Kill() {
	g.killGroup()
	g.signalRest(syscall.SIGKILL)
}

func (g *Group) killGroup() { g.Signal(syscall.SIGKILL) }

// Terminate asks them to end, with SIGTERM.
func (g *Group) Terminate() {
	g.Signal(syscall.SIGTERM)
	g.signalRest(syscall.SIGTERM, syscall.SIGCONT)
}

// Signal sends a signal to the whole group. A stopped process gets one that asks it to end
// only when it goes on.
func (g *Group) Signal(s os.Signal) {
	n, ok := s.(syscall.Signal)
	if !ok || g.leader <= 1 { // 0 is the caller's own group, 1 all processes
		return
	}
	_ = syscall.Kill(-g.leader, n)
	switch n {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		_ = syscall.Kill(-g.leader, syscall.SIGCONT)
	}
}

// EndedBadly reports whether the command, not collected yet, has ended by a signal
// or with an exit code other than 0.
func (g *Group) EndedBadly() bool {
	how, exited := g.Exit()
	return exited && how != "exit status 0"
}

// EndedBy returns the name of the signal that ended the command, such as "SIGKILL",
// or "" for a command that ended by itself.
func (g *Group) EndedBy(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return unix.SignalName(status.Signal())
	}
	return ""
}
