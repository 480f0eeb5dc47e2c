//go:build unix

package reconcile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// spawn starts a sender, which uses its connection once a file is there.
func (w *world) spawn(text string, o ledger.Operation, connect string) (*exec.Cmd, *strings.Builder) {
	w.Helper()
	b, _ := json.Marshal(order{w.path, fmt.Sprintf(text, w.side.URL), o.ID, o.Version, time.Duration(w.offset.Load()), connect})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RECONCILE_TEST_SENDER="+string(b))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	need.OK(w, cmd.Start())
	w.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &out
}

const autoPolicy = "    auto: { retry: absent }\n    lands_within: 20s"

func TestI10_KilledBetweenAttemptAndSettle(t *testing.T) {
	text := strings.Replace(payPolicy, "    lands_within: 20s", autoPolicy, 1)
	w := newWorld(t, text)
	o := w.proven("pay")
	var arrived atomic.Int64
	release := make(chan struct{})
	defer close(release)
	w.side.mu.Lock() // the request comes from another process
	w.side.onPost = func(s *side, rw http.ResponseWriter, _ *http.Request, c charge) {
		s.apply(c)
		arrived.Add(1)
		<-release
	}
	w.side.mu.Unlock()
	cmd, out := w.spawn(text, o, w.path)
	eventually(t, "the request arrives", func() bool { return arrived.Load() == 1 })
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	got := w.get(o.ID).Operation
	need.Must(t, got.State == ledger.Pending, "%s after the kill: %s", got.State, out)
	// An engine that may send is there all the time.
	stop := w.run(w.newEngine(Options{Send: true}))
	w.pass(21 * time.Second) // and so has the deadline
	eventually(t, "found by a check", func() bool { return w.get(o.ID).Operation.State == ledger.Committed })
	w.pass(time.Hour)
	time.Sleep(300 * time.Millisecond)
	stop()
	need.Equal(t, w.side.posted(), 1, "posts")
	rec := w.get(o.ID)
	a := rec.Attempts[1]
	need.That(t, a.Outcome == ledger.OutcomeUncertain && a.ErrorClass == ledger.ClassDeadline, "%+v", a)
}

func TestI3_StoppedPastTheDeadlineNothingIsSent(t *testing.T) {
	text := strings.Replace(payPolicy, "deadline: 20s", "deadline: 2s", 1)
	w := newWorld(t, text)
	o := w.proven("pay")
	connect := w.path + ".connect"
	cmd, out := w.spawn(text, o, connect)
	// It has no connection yet, so it stands between its attempt and its first byte.
	eventually(t, "the attempt is recorded", func() bool { return len(w.get(o.ID).Attempts) == 2 })
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(2200 * time.Millisecond) // the deadline is 2 s
	need.OK(t, os.WriteFile(connect, nil, 0o600))
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Wait()
	effects, posts, _ := w.side.count()
	a := w.get(o.ID).Attempts[1]
	if posts != 0 || effects != 1 || a.Final() != ledger.OutcomeFailed || a.Proof != ledger.NeverSent {
		t.Errorf("%d posts, %d effects, attempt %s %s; it said %s", posts, effects-1, a.Final(), a.Proof, out)
	}
}
