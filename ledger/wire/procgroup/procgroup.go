// Package procgroup starts a command so that it can be ended together with the
// processes it has started: a sender that must stop ends its process group (I3).
//
//	Linux          a process group, and beside it every descendant that /proc shows,
//	               and every process that carries the attempt's mark in its
//	               environment; when this process dies, however it dies, the
//	               kernel kills the command itself, but not its children
//	other Unixes   a process group, which a process can leave unseen (setsid);
//	               when this process dies, nothing ends it
//
// On Linux a process is missed only when it has left the group, cleared its
// environment and lost its parent, all three. A process that calls Adopt finds
// that one too, because the kernel makes it the parent of every orphan.
package procgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Mark is the environment variable in which a process carries the attempt that
	// it belongs to, and markAbove the attempts around that one.
	Mark      = "INDOUBT_ATTEMPT"
	markAbove = "INDOUBT_ATTEMPTS_ABOVE"
)

// Scope says what belongs to a command beside its process group.
type Scope struct {
	Attempt string // whose mark its processes carry; "" for one that has none
	// Root is a process that starts nothing else, so that every descendant of it is
	// the command's. It helps most where Root has called Adopt.
	Root  int
	Spare []int // descendants of Root that are not the command's
}

// Process is a running process.
type Process struct {
	PID, UID int
	Name     string
	start    uint64 // in clock ticks after the boot; distinguishes it from a later process with the same pid
}

func (p Process) String() string { return fmt.Sprintf("%d (%s)", p.PID, p.Name) }

// List returns the names of the first few processes.
func List(ps []Process) string {
	var names []string
	for i, p := range ps {
		if i == 3 {
			names = append(names, fmt.Sprintf("and %d more", len(ps)-i))
			break
		}
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// Environ returns an environment that carries the attempt of a process. A process
// that carries another attempt already belongs to both.
func Environ(base []string, attempt string) []string {
	var above []string
	for _, v := range base {
		if id, ok := strings.CutPrefix(v, Mark+"="); ok && id != "" && id != attempt {
			above = append(above, id)
		}
		if ids, ok := strings.CutPrefix(v, markAbove+"="); ok {
			above = append(above, strings.Fields(ids)...)
		}
	}
	out := append(base[:len(base):len(base)], Mark+"="+attempt)
	if len(above) > 0 {
		out = append(out, markAbove+"="+strings.Join(above, " "))
	}
	return out
}

// endPause is the longest wait for killed processes before the next search.
const endPause = 50 * time.Millisecond

// End kills the remaining processes of the command, over and over, until none is
// left or patience ends. It returns the processes that are left. An error means that
// they are not known.
func (g *Group) End(patience time.Duration) ([]Process, error) {
	until := time.Now().Add(patience)
	g.killGroup()
	for pause, clean := time.Millisecond, 0; ; {
		left, err := g.Left()
		if err != nil && !errors.Is(err, errLoading) {
			return nil, err
		}
		if err == nil && len(left) == 0 {
			// One search can miss a process that is started meanwhile.
			if clean++; clean == 2 {
				return nil, nil
			}
			continue
		}
		if clean = 0; time.Now().After(until) {
			return left, err
		}
		g.kill(left)
		time.Sleep(pause)
		pause = min(2*pause, endPause)
		g.Reap()
	}
}

// errLoading is the error of a search that a process kept from its end: whose it is shows
// only when its program is loaded.
var errLoading = errors.New("a program is being loaded into it")

var errNotOwn = errors.New("the command was not prepared: call Prepare before Start")

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

// last are the groups that a signal which ends this process at once ends with it.
var last = struct {
	sync.Mutex
	groups  map[*Group]bool
	asked   bool
	signals chan os.Signal
}{groups: map[*Group]bool{}, signals: make(chan os.Signal, 1)}

// StartWithUs starts a command whose group is killed by the signal that ends this process,
// until over is called. A signal waits until it is started. Errors: those of Start.
func StartWithUs(cmd *exec.Cmd) (g *Group, over func(), err error) {
	last.Lock()
	defer last.Unlock()
	if last.asked {
		listen()
	}
	if g, err = Start(cmd); err == nil {
		last.groups[g] = true
	}
	leave(nil)
	return g, func() {
		last.Lock()
		defer last.Unlock()
		leave(g)
	}, err
}

// Asked says that this process was asked to end, and that the next such signal does so
// at once.
func Asked() {
	last.Lock()
	defer last.Unlock()
	if !last.asked {
		last.asked = true
		go endLast()
	}
	if len(last.groups) > 0 {
		listen()
	}
}

func listen() { signal.Notify(last.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) }

// leave lets go of a group. Where there is none, the signal is left to others. It needs
// the lock.
func leave(g *Group) {
	if delete(last.groups, g); len(last.groups) == 0 {
		signal.Stop(last.signals)
	}
}

// endLast kills the groups, and then this process as the signal does by itself: not where
// it was started with the signal ignored.
func endLast() {
	for s := range last.signals {
		last.Lock()
		for g := range last.groups {
			g.Kill()
		}
		signal.Stop(last.signals)
		_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
		last.Unlock()
	}
}
