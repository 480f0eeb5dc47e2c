package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// put writes over the file, as cp and rsync --inplace do: it stays the same inode.
func put(t *testing.T, path string, text []byte) {
	t.Helper()
	f := need.Get(os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0))(t)
	need.Get(f.Write(text))(t)
	need.OK(t, f.Close())
}

// An older state of the ledger that was put into its file knows nothing of what was sent since. Who remembers that
// has begins held for everyone, until a person adopts it.
func TestI13_AnOlderStateInTheSameFileBeginsNothing(t *testing.T) {
	t.Parallel()
	path, o := filepath.Join(t.TempDir(), "ledger.db"), Options{State: t.TempDir()}
	s := need.Get(Create(ctx, path, o))(t)
	early := begin(t, s)
	need.OK(t, s.Close())
	older := need.Get(os.ReadFile(path))(t)
	s = need.Get(Open(ctx, path, o))(t)
	begin(t, s)
	need.Equal(t, need.Get(s.Info(ctx))(t).Lacks, "")
	need.OK(t, s.Close())
	newer := need.Get(os.ReadFile(path))(t)
	begins := func(o Options) ledger.BeginResult {
		t.Helper()
		s := need.Get(Open(ctx, path, o))(t)
		defer s.Close()
		return need.Get(ledger.Begin(ctx, s, request()))(t)
	}
	release := func() error {
		s := need.Get(Open(ctx, path, Options{}))(t)
		defer s.Close()
		return s.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: ann, Reason: "no", ChangeID: ledger.NewID()})
	}

	put(t, path, older)
	r := need.Get(Open(ctx, path, Options{ReadOnly: true, State: o.State}))(t)
	need.That(t, strings.Contains(need.Get(r.Info(ctx))(t).Lacks, "older state"), "who only looks is not told")
	need.OK(t, r.Close())
	need.OK(t, Adopt(ctx, path, Options{Actor: ann, State: o.State}))
	need.Equal(t, begins(Options{}).Answer, ledger.AnswerHeld, "it is adopted before anyone has begun")
	put(t, path, older)
	need.Equal(t, begins(Options{}).Answer, ledger.AnswerBegun, "an account that knows of nothing")
	put(t, path, older)
	for _, who := range []Options{o, {}} {
		held := begins(who)
		need.That(t, held.Answer == ledger.AnswerHeld && strings.Contains(held.Why, "older state"), "%s: %s", held.Answer, held.Why)
	}
	s = need.Get(Open(ctx, path, Options{}))(t)
	need.Equal(t, need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: early.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: ann}))(t).After.State,
		ledger.Committed, "what is in flight is settled")
	need.That(t, need.Get(s.Info(ctx))(t).Lacks != "", "nobody is told")
	need.OK(t, s.Close())
	err := release()
	need.That(t, errors.Is(err, ledger.ErrFailover), "released: %v", err)

	was := need.Get(os.ReadFile(path))(t)
	put(t, path, newer) // the newest state came back
	need.Equal(t, begins(o).Answer, ledger.AnswerBegun, "nothing is missing")
	put(t, path, was)
	run := ledger.DecisionRun{ID: "run", Verb: "retry", Actor: ann, Terms: ledger.RunTerms{Reason: "over"}, CreatedAt: time.Now()}
	s = need.Get(Open(ctx, path, Options{}))(t)
	_, _, err = s.Run(ctx, run, []ledger.RunItem{{OperationID: "a", Version: 1, Kind: "mail"}, {N: 1, OperationID: "b", Version: 1, Kind: "mail"}})
	need.OK(t, errors.Join(err, s.Close()))
	need.OK(t, Adopt(ctx, path, Options{Actor: ann}))
	s = need.Get(Open(ctx, path, Options{}))(t)
	runs := need.Get(s.Runs(ctx, ledger.RunQuery{Limit: 9}))(t)
	need.That(t, len(runs) == 1 && !runs[0].Open() && strings.Contains(runs[0].Why, "adopted"), "runs go on: %+v", runs)
	need.OK(t, s.Close())
	need.Equal(t, begins(o).Answer, ledger.AnswerHeld, "it is adopted")
	need.OK(t, release())
	for range 2 {
		need.Equal(t, begins(o).Answer, ledger.AnswerBegun, "it is released")
	}
}

// Programs that have it open notice it by their next begin.
func TestI13_AnOlderStateUnderOpenProgramsBeginsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := need.Get(Create(ctx, path, Options{}))(t)
	begin(t, s)
	need.OK(t, s.Close())
	older := need.Get(os.ReadFile(path))(t)
	s = need.Get(Open(ctx, path, Options{}))(t)
	begin(t, s)
	need.OK(t, rawDB(t, path).QueryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Err())

	put(t, path, older)
	res, err := ledger.Begin(ctx, s, request())
	need.That(t, errors.Is(err, ledger.ErrGone) || res.Answer == ledger.AnswerHeld, "%s: %v", res.Answer, err)
	need.OK(t, s.Close())
}

// A backup under the log of a newer state makes a mixture of both, which SQLite takes for a
// ledger where no page happens to contradict another.
func TestI1_ABackupUnderANewerLogTakesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := need.Get(Create(ctx, path, Options{}))(t)
	defer s.Close()
	folded := func() {
		t.Helper()
		var busy, log, done int
		need.OK(t, rawDB(t, path).QueryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &log, &done))
		need.That(t, busy == 0, "it is not folded")
	}
	begin(t, s)
	folded()
	older := need.Get(os.ReadFile(path))(t)
	for range 3 { // what is written without a checkpoint between is no other state of the file
		begin(t, s)
		need.OK(t, s.behind())
	}
	folded()
	begin(t, s)
	need.OK(t, s.behind())

	put(t, path, older)
	var damaged *DamagedError
	_, err := ledger.Begin(ctx, s, request())
	need.That(t, errors.As(err, &damaged), "begun: %v", err)
	_, err = Open(ctx, path, Options{})
	need.That(t, errors.As(err, &damaged), "opened: %v", err)
}
