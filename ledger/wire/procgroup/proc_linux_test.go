package procgroup

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A program whose first thread ends while another one goes on, until its input ends.
func init() {
	if os.Getenv("PROCGROUP_ROLE") == "headless" { // the first thread runs this
		go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	}
}

func TestI3_AProgramIsNotMissed(t *testing.T) {
	// A process shows no environment while another program takes its place, and only a part
	// of one that is read as that happens.
	t.Run("that is loaded", func(t *testing.T) {
		const again = `exec /bin/sh -c "$0" "$0"`
		pid := program(t, "loading", exec.Command("/bin/sh", "-c", again, again))
		for n := range 3000 {
			is, err := need.Get(look(pid))(t).carries("loading")
			need.Must(t, is || errors.Is(err, errLoading), "look %d: %v", n, err)
		}
		left, err := Of(0, Scope{Attempt: "loading"}).Left()
		need.Must(t, len(left) == 1 && left[0].PID == pid || errors.Is(err, errLoading), "%v, %v", left, err)
	})
	// That thread shows nothing, and its files are closed to an ordinary account. So it is with
	// the first threads of a program that is killed, until the last one has ended.
	t.Run("without its first thread", func(t *testing.T) {
		pid := program(t, "headless", exec.Command(os.Args[0]))
		for need.Get(look(pid))(t).state != 'Z' {
			time.Sleep(time.Millisecond)
		}
		is, err := need.Get(look(pid))(t).carries("headless")
		need.That(t, is && err == nil, "%v, %v", is, err)
		is, err = need.Get(look(pid))(t).carries("another")
		need.That(t, !is && err == nil, "%v, %v", is, err)
	})
}

// program starts a command under a mark, which is also its role, and ends it with the test.
func program(t *testing.T, mark string, cmd *exec.Cmd) (pid int) {
	cmd.Env = append(os.Environ(), "PROCGROUP_ROLE="+mark, Mark+"="+mark)
	need.Get(cmd.StdinPipe())(t)
	need.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// TestABareProcessIsNotWaitedFor: one that was started without an environment has none. One that
// has ended acts no more, also while nobody has taken its exit code: its own account may not
// look into it then.
func TestABareProcessIsNotWaitedFor(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.Env = []string{}
	need.OK(t, cmd.Start())
	e := need.Get(look(cmd.Process.Pid))(t)
	none := func() {
		t.Helper()
		is, err := e.carries("another")
		need.That(t, !is && err == nil, "%v %v", is, err)
	}
	none()
	a := ledger.Attempt{PID: cmd.Process.Pid, Place: Here()}
	need.That(t, !Ended(a), "it has ended")
	need.OK(t, cmd.Process.Kill())
	for need.Get(look(cmd.Process.Pid))(t).state != 'Z' {
		none()
	}
	none()
	need.That(t, Ended(a), "its exit code is to be fetched, and it has not ended")
	_ = cmd.Wait()
	none()
}
