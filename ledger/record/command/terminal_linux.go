package command

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"indoubt/ledger/record/command/standby"
)

// terminal is the controlling terminal of this process, to be given to a command
// as a shell would. The command is in a process group of its own, and the kernel
// stops whatever reads a terminal from the background.
type terminal struct {
	file    *os.File
	modes   *unix.Termios
	guard   []string  // the command line of a guard
	hold    *os.File  // our end: a byte lets the command run, and its answer says that it runs
	held    *os.File  // the command's end
	witness *exec.Cmd // in the command's group before that is let go, so a key reaches both
	until   io.Closer // the witness stays until this is closed
	failed  error     // why there is none
}

var errEndedBefore = errors.New("it was ended before it was run")

// witnessPatience is how long a witness may take to end.
const witnessPatience = 2 * time.Second

// ownTerminal is the terminal that this process has in the foreground, or nil.
// Where output goes on to another program, that one may read the terminal (a
// pager), and it stays where it is. So it does without a witness: nothing would tell
// that a key asked the command to end.
func ownTerminal(stdin io.Reader, stdout io.Writer, guard []string) *terminal {
	in, isFile := stdin.(*os.File)
	out, isToo := stdout.(*os.File)
	if len(guard) == 0 || !isFile || !isToo || modesOf(in) == nil || modesOf(out) == nil {
		return nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{guard: guard, hold: os.NewFile(uintptr(pair[0]), "hold"), held: os.NewFile(uintptr(pair[1]), "held")}
	if t.file, err = os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		if t.modes = modesOf(t.file); t.modes != nil && t.mine() {
			return t
		}
	}
	t.close()
	return nil
}

func (t *terminal) close() {
	for _, f := range []*os.File{t.file, t.hold, t.held} {
		f.Close()
	}
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

// holds has a command start in the foreground and wait there: joins lets it run.
func (t *terminal) holds(cmd *exec.Cmd) {
	cmd.Args = standby.Held(t.guard, cmd.Path, cmd.Args)
	cmd.Path, cmd.ExtraFiles = cmd.Args[0], []*os.File{t.held}
	cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(t.file.Fd())
}

// joins starts the witness in the command's group, lets the command go, and returns the
// witness's process id. Where there can be none (0), the command is not run.
func (t *terminal) joins(group int) int {
	if t == nil {
		return 0
	}
	t.held.Close()
	line := standby.Witnessing(t.guard)
	t.witness = exec.Command(line[0], line[1:]...)
	t.witness.Dir, t.witness.SysProcAttr = "/", &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	until, err := t.witness.StdinPipe()
	if err == nil {
		err = t.witness.Start()
	}
	if err != nil {
		t.failed = err
		t.hold.Close()
		return 0
	}
	t.until = until
	_, _ = t.hold.WriteString(" ")
	return t.witness.Process.Pid
}

// neverBegan says why a command that has ended was never run; nil where it was run.
func (t *terminal) neverBegan(name string) error {
	if t == nil {
		return nil
	}
	said, _ := io.ReadAll(t.hold)
	errno, _ := strconv.Atoi(strings.TrimSpace(string(said)))
	switch {
	case len(said) == 0:
		return cmp.Or(t.failed, errEndedBefore)
	case errno != 0:
		return &fs.PathError{Op: "fork/exec", Path: name, Err: syscall.Errno(errno)}
	}
	return nil
}

// asked says what asked the command's group to end, "" where nothing did. A witness
// that cannot tell counts as one that was asked.
func (t *terminal) asked() string {
	if t == nil || t.until == nil {
		return ""
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
	defer t.close()
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
