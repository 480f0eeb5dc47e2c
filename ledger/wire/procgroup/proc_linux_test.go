package procgroup

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"indoubt/ledger/need"
)

// TestI3_AProgramThatIsLoadedIsNotMissed: a process shows no environment while another
// program takes its place, and only a part of one that is read as that happens.
func TestI3_AProgramThatIsLoadedIsNotMissed(t *testing.T) {
	const again = `exec /bin/sh -c "$0" "$0"`
	cmd := exec.Command("/bin/sh", "-c", again, again)
	cmd.Env = append(os.Environ(), Mark+"=loading")
	need.OK(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for n := range 3000 {
		is, err := need.Get(look(cmd.Process.Pid))(t).carries("loading")
		need.Must(t, is || errors.Is(err, errLoading), "look %d: %v", n, err)
	}
	left, err := Of(0, Scope{Attempt: "loading"}).Left()
	need.Must(t, len(left) == 1 && left[0].PID == cmd.Process.Pid || errors.Is(err, errLoading), "%v, %v", left, err)
}

// A program whose first thread ends while another one goes on.
func init() {
	if os.Getenv("PROCGROUP_ROLE") == "headless" { // the first thread runs this
		go func() { time.Sleep(time.Minute); os.Exit(0) }()
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	}
}

// TestI3_AProgramWithoutItsFirstThreadIsNotMissed: that thread shows nothing, and its files
// are closed to an ordinary account. So it is with the first threads of a program that is
// killed, until the last one has ended.
func TestI3_AProgramWithoutItsFirstThreadIsNotMissed(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCGROUP_ROLE=headless", Mark+"=headless")
	need.OK(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for need.Get(look(cmd.Process.Pid))(t).state != 'Z' {
		time.Sleep(time.Millisecond)
	}
	is, err := need.Get(look(cmd.Process.Pid))(t).carries("headless")
	need.That(t, is && err == nil, "%v, %v", is, err)
	is, err = need.Get(look(cmd.Process.Pid))(t).carries("another")
	need.That(t, !is && err == nil, "%v, %v", is, err)
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
	need.OK(t, cmd.Process.Kill())
	for need.Get(look(cmd.Process.Pid))(t).state != 'Z' {
		none()
	}
	none()
	_ = cmd.Wait()
	none()
}
