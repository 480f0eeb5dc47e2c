package procgroup

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

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

// TestABareProcessIsNotWaitedFor: one that was started without an environment has none. One that
// has ended acts no more, also while nobody has taken its exit code: its own account may not
// look into it then.
func TestABareProcessIsNotWaitedFor(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.Env = []string{}
	need.OK(t, cmd.Start())
	e := need.Get(look(cmd.Process.Pid))(t)
	is, err := e.carries("another")
	need.That(t, !is && err == nil && !e.ends(), "%v %v", is, err)
	need.OK(t, cmd.Process.Kill())
	for !e.ends() {
		time.Sleep(time.Millisecond)
	}
	_ = cmd.Wait()
	need.That(t, e.ends(), "it is gone")
}
