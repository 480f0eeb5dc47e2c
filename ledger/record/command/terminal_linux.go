package command

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of this process, to be given to a command
// as a shell would. The command is in a process group of its own, and the kernel
// stops whatever reads a terminal from the background.
type terminal struct {
	file    *os.File
	modes   *unix.Termios
	witness *exec.Cmd // in the command's group: its keys reach the command alone
	until   io.Closer // the witness stays until this is closed
}

// witnessPatience is how long a witness may take to end.
const witnessPatience = 2 * time.Second

// ownTerminal is the terminal that this process has in the foreground, or nil.
// Where output goes on to another program, that one may read the terminal (a
// pager), and it stays where it is. So it does without a witness: nothing would tell
// that a key asked the command to end.
func ownTerminal(stdin io.Reader, stdout io.Writer, witness []string) *terminal {
	in, isFile := stdin.(*os.File)
	out, isToo := stdout.(*os.File)
	if len(witness) == 0 || !isFile || !isToo || modesOf(in) == nil || modesOf(out) == nil {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: tty, modes: modesOf(tty), witness: exec.Command(witness[0], witness[1:]...)}
	if !t.mine() || t.modes == nil {
		tty.Close()
		return nil
	}
	return t
}

func modesOf(f *os.File) *unix.Termios {
	modes, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil
	}
	return modes
}

// mine reports whether this process is in the foreground.
func (t *terminal) mine() bool {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// begins has a command start in the foreground.
func (t *terminal) begins(attr *syscall.SysProcAttr) {
	if t != nil {
		attr.Foreground, attr.Ctty = true, int(t.file.Fd())
	}
}

// joins starts the witness in the command's group, and returns its process id; 0: it could
// not be started.
func (t *terminal) joins(group int) int {
	if t == nil {
		return 0
	}
	in, err := t.witness.StdinPipe()
	if err == nil {
		t.witness.Dir, t.witness.SysProcAttr = "/", &syscall.SysProcAttr{Setpgid: true, Pgid: group}
		err = t.witness.Start()
	}
	if err != nil {
		return 0
	}
	t.until = in
	return t.witness.Process.Pid
}

// asked says what asked the command's group to end, "" where nothing did. A witness
// that cannot tell counts as one that was asked.
func (t *terminal) asked() string {
	if t == nil {
		return ""
	}
	if t.until == nil {
		return "perhaps, which cannot be told"
	}
	t.until.Close()
	_ = t.witness.Process.Signal(syscall.SIGCONT) // a key may have stopped it
	slow := time.AfterFunc(witnessPatience, func() { _ = t.witness.Process.Kill() })
	defer slow.Stop()
	if t.witness.Wait() == nil {
		return ""
	}
	if status, ok := t.witness.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() != syscall.SIGKILL {
		return status.Signal().String()
	}
	return "by a key of the terminal"
}

// to puts a process group into the foreground, from the background if need be.
func (t *terminal) to(group int) {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group)
}

// back takes the terminal from a command that has ended. One that was killed may
// have left it without echo.
func (t *terminal) back(killed bool) {
	if t == nil {
		return
	}
	defer t.file.Close()
	t.to(unix.Getpgrp())
	if killed {
		_ = unix.IoctlSetTermios(int(t.file.Fd()), unix.TCSETSW, t.modes)
	}
}

// paused stops this job with its command, which a key has stopped, and goes on
// with it. The deadline is not extended meanwhile.
func (t *terminal) paused(command int) {
	t.to(unix.Getpgrp())
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	select { // this process stops somewhere here
	case <-continued:
	case <-time.After(time.Second): // no shell would have it go on, so the kernel does not stop it
	}
	if t.mine() {
		t.to(command)
	}
	_ = syscall.Kill(-command, syscall.SIGCONT)
}
