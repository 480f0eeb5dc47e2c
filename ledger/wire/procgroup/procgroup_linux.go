package procgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"indoubt/ledger"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Adopt makes this process the parent of every descendant that loses its own,
// and reports whether the system can do that.
func Adopt() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

// AwaitExit returns when the command has exited, and does not collect it: until it
// is collected, its process id and group are not used again. It reports whether it
// could wait; if not, exec.Cmd.Wait has to. stopped, when not nil, is called each
// time the command was stopped.
func (g *Group) AwaitExit(stopped func()) bool {
	const childStopped = 5 // CLD_STOPPED
	events := unix.WEXITED
	if stopped != nil {
		events |= unix.WSTOPPED
	}
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_PID, g.leader, &info, events|unix.WNOWAIT, nil); {
		case err == unix.EINTR:
		case err != nil:
			return false
		case info.Code == childStopped:
			if err := unix.Waitid(unix.P_PID, g.leader, &info, unix.WSTOPPED|unix.WNOHANG, nil); err == nil {
				stopped()
			}
		default:
			return true
		}
	}
}

// Exit reports whether the command is known to have ended by itself already, and how while it
// is not collected: "" where that is not known.
func (g *Group) Exit() (how string, exited bool) {
	const childExited = 1 // CLD_EXITED
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, g.leader, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	status := childOf(&info).status
	switch {
	case err != nil || info.Signo == 0:
		return "", err == unix.ECHILD
	case info.Code == childExited:
		return fmt.Sprintf("exit status %d", status), true
	}
	return "signal " + unix.SignalName(syscall.Signal(status)), true
}

// childInfo is the part of a siginfo about a child. It follows three words and is
// aligned like a pointer.
type childInfo struct{ pid, uid, status int32 }

func childOf(info *unix.Siginfo) childInfo {
	const word = unsafe.Sizeof(uintptr(0))
	return *(*childInfo)(unsafe.Add(unsafe.Pointer(info), (12+word-1)/word*word))
}

// Reap collects adopted processes that have ended. The command and the spared
// processes have callers that wait for them, and are left alone.
func (g *Group) Reap() {
	for g.scope.Root == os.Getpid() {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil); err != nil || info.Signo == 0 {
			return
		}
		pid := int(childOf(&info).pid)
		if pid == g.leader || slices.Contains(g.scope.Spare, pid) {
			return
		}
		_ = unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG, nil)
	}
}

// Left returns the running processes of the command. An error means that they are
// not known, or not all of them.
func (g *Group) Left() ([]Process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	found, unknown := map[int]bool{}, map[int]error{}
	for _, e := range all {
		is := e.PID == g.leader || g.leader > 1 && e.group == g.leader || g.scope.Root != 0 && e.parent == g.scope.Root
		if !is {
			if is, err = g.marked(e); errors.Is(err, errLoading) {
				unknown[e.PID] = err
			}
		}
		found[e.PID] = is
	}
	spared := append([]int{os.Getpid()}, g.scope.Spare...)
	for more := true; more; { // a child may come before its parent
		more = false
		for _, e := range all {
			if spare := slices.Contains(spared, e.PID); spare || !found[e.PID] && found[e.parent] {
				more = more || !spare
				found[e.PID] = !spare
			}
		}
	}
	var left []Process
	err = nil
	for _, e := range all {
		if found[e.PID] {
			e.UID = e.account()
			left = append(left, e.Process)
		} else if unknown[e.PID] != nil {
			err = unknown[e.PID]
		}
	}
	return left, err
}

func (g *Group) marked(e entry) (bool, error) {
	if g.scope.Attempt == "" || e.kernel {
		return false, nil
	}
	return e.carries(g.scope.Attempt)
}

func (e entry) account() int {
	if ids, err := e.uids(); err == nil && len(ids) > 1 {
		return ids[1]
	}
	return -1
}

// signalRest signals the processes that have left the group.
func (g *Group) signalRest(signals ...unix.Signal) {
	if g.scope.Attempt == "" && g.scope.Root == 0 {
		return
	}
	left, _ := g.Left()
	for _, p := range left {
		if now, err := look(p.PID); err != nil || g.leader > 1 && now.group == g.leader {
			continue
		}
		for _, s := range signals {
			p.signal(s)
		}
	}
}

func (g *Group) kill(left []Process) {
	for _, p := range left {
		p.signal(unix.SIGKILL)
	}
}

// noProcess reports whether no process has the id, or one that has ended and that nobody has
// asked for its exit code yet, as in a container without an init.
func noProcess(pid int) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true
	}
	e, err := look(pid)
	return err == nil && !e.alive()
}

func pidNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

func uptime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano()), err
}

const (
	tick = 10 * time.Millisecond // USER_HZ, which /proc counts in
	// unsure is how far the wall clock may have been set since the attempt began.
	unsure = time.Minute
)

// marked returns the processes that carry the attempt's mark. It includes the
// recorder of the attempt while that is stopped: it may still start the command.
func marked(a ledger.Attempt, here ledger.Place) ([]Process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	up, err := uptime()
	if err != nil {
		return nil, err
	}
	began := up - time.Since(a.StartedAt) - unsure
	var found []Process
	for _, e := range all {
		if e.kernel {
			continue
		}
		is, err := e.carries(a.ID)
		switch {
		case is || e.PID == a.PID && (e.state == 'T' || e.state == 't'):
			found = append(found, e.Process)
		case err != nil && time.Duration(e.start)*tick >= began && mayBeOf(e, a, here):
			return nil, fmt.Errorf("process %s does not show whose it is: %w", e, err)
		}
	}
	return found, nil
}

// mayBeOf reports whether a process that cannot be inspected may belong to the
// attempt: it has the attempt's account, or the caller is root and should see all.
func mayBeOf(e entry, a ledger.Attempt, here ledger.Place) bool {
	ids, err := e.uids()
	if gone(err) {
		return false
	}
	return err != nil || here.UID == 0 || slices.Contains(ids, a.UID)
}
