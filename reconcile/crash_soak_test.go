//go:build soak && unix

package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/policy"
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

func TestI10_KilledBetweenAttemptAndSettle(t *testing.T) {
	text := payPolicy
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
	// An engine is there all the time.
	stop := w.run(w.newEngine(Options{Notify: true}))
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

func init() { sender = sends }

// order is what a sender in a process of its own is told.
type order struct {
	Ledger, Policy, ID string
	Version            int64
	Offset             time.Duration
	Connect            string // a file; a connection is used once it is there
}

// sends retries one operation and prints what it did; the test kills or stops
// it on the way.
func sends(text string) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	clock := func() time.Time { return time.Now().Add(o.Offset) }
	store, err := open.Open(context.Background(), o.Ledger, open.Options{Clock: clock, Steady: hostclock.With(clock)})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	pol, err := policy.Parse("policy.yaml", []byte(o.Policy))
	if err != nil {
		panic(err)
	}
	e := New(Options{Store: store, Policy: func() *policy.Policy { return pol }, Actor: maya, Clock: clock, Steady: hostclock.With(clock), Log: func(s string) { fmt.Println(s) }})
	e.downs.of(pol.Kind("pay")).http.Dial = func(_ context.Context, network, address string) (net.Conn, error) {
		c, err := net.Dial(network, address)
		for _, missing := os.Stat(o.Connect); missing != nil; _, missing = os.Stat(o.Connect) {
			time.Sleep(10 * time.Millisecond)
		}
		return c, err
	}
	p, err := e.Plan(context.Background(), o.ID)
	if err != nil {
		panic(err)
	}
	res, err := e.Retry(context.Background(), RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof, Showing: p.Showing, Actor: maya})
	fmt.Println("did", res.Did, "outcome", res.Attempt.Outcome, res.Attempt.Proof, "err", err)
}
