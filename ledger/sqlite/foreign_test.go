//go:build soak

package sqlite

import (
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
)

const python = `
import sqlite3, sys, uuid
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
db.execute("PRAGMA synchronous = FULL")
for n in range(int(sys.argv[2])):
    id = str(uuid.uuid4())
    db.execute("INSERT INTO intent (id, kind, key, input, actor) VALUES (?, 'mail.send', ?, ?, 'nightly')", (id, id, '{"n": %d}' % n))
    db.execute("INSERT INTO settle (attempt, outcome, receipt, actor) VALUES (?, ?, ?, 'nightly')",
               (id + ".1", ("committed", "uncertain")[n % 2], ("m-%d" % n, "")[n % 2]))
`

// A pipeline in another language writes with its own SQLite, ignoring the write lock,
// while this one writes too.
func TestForeignWriters(t *testing.T) {
	need.Program(t, "python3")
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	heard := s.Watch(t.Context())
	cmd := exec.Command("python3", "-c", python, s.path, "40")
	var said strings.Builder
	cmd.Stderr = &said
	need.OK(t, cmd.Start())
	for range 40 {
		settleAs(t, s, begin(t, s).Attempt.ID, ledger.OutcomeCommitted)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	select {
	case <-heard:
	case <-time.After(time.Minute):
		t.Fatal("nothing was heard")
	}
	counts := need.Get(s.Counts(ctx, time.Now()))(t)
	need.Must(t, counts.All == 80 && counts.ByState[ledger.Committed] == 60 && counts.ByState[ledger.Uncertain] == 20 && counts.NeedsYou == 20,
		"%+v", counts)
	events := need.Get(s.History(ctx, ledger.HistoryQuery{Limit: 1000}))(t)
	need.Must(t, len(events) == 160, "%d events", len(events))
}

func TestShellWriter(t *testing.T) {
	need.Program(t, "sqlite3")
	var ahead atomic.Int64 // of the shell's clock
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{Clock: now, Steady: hostclock.With(now)}))(t)
	defer s.Close()
	shell := func(statements string) (string, error) {
		out, err := exec.Command("sqlite3", "-bail", s.path, statements).CombinedOutput()
		return string(out), err
	}
	out, err := shell(fmt.Sprintf(`PRAGMA synchronous = FULL;
		INSERT INTO intent (id, kind, key, deadline_at, source, actor) VALUES ('o', 'deploy', 'web@1', %d, 'ci', 'ci');`,
		time.Now().Add(time.Minute).UnixMilli()))
	need.Must(t, err == nil, "%v: %s", err, out)
	// Nothing more is said: in doubt when the deadline has passed.
	ahead.Store(int64(2 * time.Minute))
	counts := need.Get(s.Counts(ctx, now()))(t)
	need.Must(t, counts.NeedsYou == 1 && counts.InFlight == 0, "%+v", counts)
	n := need.Get(s.Expire(ctx, 10))(t)
	need.Must(t, n == 1, "%d expired", n)
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: "o"}))(t)
	if rec.Operation.State != ledger.Uncertain || rec.Operation.ErrorClass != ledger.ClassDeadline || rec.Attempts[0].Outcome != ledger.OutcomeUncertain {
		t.Fatalf("%+v", rec)
	}
	events := need.Get(s.History(ctx, ledger.HistoryQuery{Operation: "o", Limit: 10}))(t)
	e := events[len(events)-1]
	need.Must(t, e.Verb == "expire" && e.Actor.Name == "clock", "%+v", e)
	out, err = shell(`INSERT INTO settle (attempt, outcome, receipt, actor) VALUES ('o.1', 'committed', 'build-7', 'ci')`)
	need.Must(t, err != nil && strings.Contains(out, "records what comes late"), "a late answer: %v: %s", err, out)
	out, err = shell(`DELETE FROM ev`)
	need.Must(t, err != nil && strings.Contains(out, "never deleted"), "the shell deleted history: %v %s", err, out)
}
