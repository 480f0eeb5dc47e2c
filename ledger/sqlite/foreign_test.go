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
import sqlite3, sys, time, uuid
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
db.execute("PRAGMA synchronous = FULL")
for n in range(int(sys.argv[2])):
    id = str(uuid.uuid4())
    db.execute("INSERT INTO operations (id, kind, key, input, deadline_at, source, actor) VALUES (?, 'mail.send', ?, ?, ?, 'nightly', 'nightly')",
               (id, id, '{"n": %d}' % n, int(time.time() * 1000) + 60000))
    db.execute("UPDATE operations SET state = ?, receipt = ?, change_id = ?, actor = 'nightly', reason = 'answered' WHERE id = ? AND state = 'pending'",
               (("committed", "uncertain")[n % 2], ("m-%d" % n, "")[n % 2], str(uuid.uuid4()), id))
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
	need.Must(t, counts.All == 80 && counts.ByState[ledger.Committed] == 60 && counts.ByState[ledger.Uncertain] == 20 && counts.NeedsYou == 20, "%+v", counts)
	if events := need.Get(s.History(ctx, ledger.HistoryQuery{Limit: 1000}))(t); len(events) != 160 {
		t.Fatalf("%d events", len(events))
	}
}

func TestShellWriter(t *testing.T) {
	need.Program(t, "sqlite3")
	var ahead atomic.Int64 // of the shell's clock
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{Clock: now, Steady: hostclock.With(now)}))(t)
	defer s.Close()
	out, err := exec.Command("sqlite3", "-bail", s.path, fmt.Sprintf(`
		PRAGMA synchronous = FULL;
		INSERT INTO operations (id, kind, key, deadline_at, source, actor) VALUES ('o', 'deploy', 'web@1', %d, 'ci', 'ci');`,
		time.Now().Add(time.Minute).UnixMilli())).CombinedOutput()
	need.Must(t, err == nil, "%v: %s", err, out)
	// Nothing more is said: in doubt when the deadline has passed.
	ahead.Store(int64(2 * time.Minute))
	counts := need.Get(s.Counts(ctx, now()))(t)
	need.Must(t, counts.NeedsYou == 1 && counts.InFlight == 0, "%+v", counts)
	if n := need.Get(s.Expire(ctx, 10))(t); n != 1 {
		t.Fatalf("%d expired", n)
	}
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: "o"}))(t)
	if rec.Operation.State != ledger.Uncertain || rec.Operation.ErrorClass != ledger.ClassDeadline || rec.Attempts[0].Outcome != ledger.OutcomeUncertain {
		t.Fatalf("%+v", rec)
	}
	events := need.Get(s.History(ctx, ledger.HistoryQuery{Operation: "o", Limit: 10}))(t)
	if e := events[len(events)-1]; e.Verb != "expire" || e.Actor.Name != "clock" {
		t.Fatalf("%+v", e)
	}
	out, err = exec.Command("sqlite3", "-bail", s.path, `
		UPDATE operations SET state = 'committed', receipt = 'build-7', change_id = 'o-3', actor = 'ci', reason = 'found it' WHERE id = 'o'`).CombinedOutput()
	need.Must(t, err == nil, "%v: %s", err, out)
	out, err = exec.Command("sqlite3", "-bail", s.path, `DELETE FROM events`).CombinedOutput()
	need.Must(t, err != nil && strings.Contains(string(out), "never deleted"),
		"the shell deleted history: %v %s", err, out)
}
