package command

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of this process, to be given to a command
// as a shell would. The command is in a process group of its own, and the kernel
// stops whatever reads a terminal from the background.
type terminal struct {
	file  *os.File
	modes *unix.Termios
}

// ownTerminal is the terminal that this process has in the foreground, or nil.
// Where output goes on to another program, that one may read the terminal (a
// pager), and it stays where it is.
func ownTerminal(stdin io.Reader, stdout io.Writer) *terminal {
	in, isFile := stdin.(*os.File)
	out, isToo := stdout.(*os.File)
	if !isFile || !isToo || modesOf(in) == nil || modesOf(out) == nil {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: tty, modes: modesOf(tty)}
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
