//go:build soak

package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func init() { roles["write"], roles["allow"] = write, allow }

// write begins and settles from eight goroutines for ever, and says what was
// acknowledged.
func write(path string) error {
	s, err := Create(ctx, path, Options{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(what, id string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what, id)
	}
	failed := make(chan error)
	for range 8 {
		go func() {
			for {
				res, err := ledger.Begin(ctx, s, request(func(r *ledger.BeginRequest) { r.Key = ledger.NewID() }))
				if err != nil {
					failed <- err
					return
				}
				say("begun", res.Operation.ID)
				if _, err := ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: billing}); err != nil {
					failed <- err
					return
				}
				say("settled", res.Operation.ID)
			}
		}()
	}
	return <-failed
}

// A writer that is killed in the middle of anything has lost nothing that it
// was told is recorded, and the ledger opens as if nothing had happened.
func TestI10_KilledWriterLosesNothing(t *testing.T) {
	path := t.TempDir() + "/ledger.db"
	told := acknowledged{}
	for round := range 4 {
		cmd, out, _ := other(t, "write", path)
		told.hear(out, func() { time.AfterFunc(time.Duration(100+130*round)*time.Millisecond, func() { cmd.Process.Kill() }) }, never)
		cmd.Wait()
	}
	told.whole(t, path)
}

// acknowledged is what a writer was told is recorded: begun or settled, by id.
type acknowledged map[string]string

// hear takes in what a writer says until it ends. end is called at its first word, so
// that a slow start is no excuse; what it says once deaf is not taken in.
func (a acknowledged) hear(out *bufio.Scanner, end func(), deaf func() bool) {
	for first := true; out.Scan(); first = false {
		if first {
			end()
		}
		if deaf() {
			continue
		}
		if what, id, ok := strings.Cut(out.Text(), " "); ok && len(id) == 36 {
			a[id] = what
		}
	}
}

func never() bool { return false }

// whole opens the ledger and finds everything that was acknowledged, and nothing half.
func (a acknowledged) whole(t *testing.T, path string) {
	t.Helper()
	need.Must(t, len(a) != 0, "nothing was written before the end")
	s := need.Get(Open(ctx, path, Options{}))(t)
	defer s.Close()
	for id, what := range a {
		rec := need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t)
		if what == "settled" && rec.Operation.State != ledger.Committed || !rec.Found {
			t.Fatalf("%s was %s and is %q", id, what, rec.Operation.State)
		}
		if o := rec.Operation; len(rec.Attempts) != 1 || (o.State == ledger.Pending) != (rec.Attempts[0].Outcome == "") {
			t.Fatalf("half a change: %+v", rec)
		}
	}
	var ok string
	need.OK(t, s.one(ctx, `PRAGMA integrity_check`, &ok))
	counts := need.Get(s.Counts(ctx, time.Now()))(t)
	var all, events int
	need.OK(t, s.one(ctx, `SELECT (SELECT count(*) FROM op), (SELECT count(*) FROM ev)`, &all, &events))
	need.Must(t, ok == "ok" && counts.All == all && events == all+counts.ByState[ledger.Committed],
		"integrity %s, %d operations, %d events, counts %+v", ok, all, events, counts)
}

// allow moves one operation until it has moved it often enough, always from the
// version it has seen.
func allow(path string) error {
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	won, err := allowOften(s, "one", 5)
	fmt.Println(won)
	return err
}

func allowOften(s *Store, id string, times int) (won int, err error) {
	for won < times {
		rec, err := s.Read(ctx, ledger.Locator{ID: id})
		if err != nil {
			return won, err
		}
		_, err = ledger.Allow(ctx, s, ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), OperationID: id, Version: rec.Operation.Version,
			Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: ann, Reason: "the customer asked for it", ExpiresAt: rec.Now.Add(time.Hour)})
		switch {
		case err == nil:
			won++
		case !errors.Is(err, ledger.ErrMoved):
			return won, err
		}
	}
	return won, nil
}

func TestI7_ManyWritersOneVersionEach(t *testing.T) {
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	res := begin(t, s, func(r *ledger.BeginRequest) { r.OperationID = "one" })
	first := settleAs(t, s, res.Attempt.ID, ledger.OutcomeUncertain)
	var outs []*bufio.Scanner
	for range 4 {
		_, out, _ := other(t, "allow", s.path)
		outs = append(outs, out)
	}
	var won atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			n, err := allowOften(s, "one", 5)
			need.That(t, err == nil, "%v", err)
			won.Add(int64(n))
		})
	}
	wg.Wait()
	for _, out := range outs {
		for out.Scan() {
			n := need.Get(strconv.Atoi(out.Text()))(t)
			won.Add(int64(n))
		}
	}
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: "one"}))(t)
	if won.Load() != 100 || rec.Operation.Version != first.Version+100 {
		t.Fatalf("%d won, version went from %d to %d", won.Load(), first.Version, rec.Operation.Version)
	}
	events := need.Get(s.History(ctx, ledger.HistoryQuery{Operation: "one", Limit: 1000}))(t)
	for i := 1; i < len(events); i++ {
		need.Must(t, events[i].Version == events[i-1].Version+1, "version %d after %d", events[i].Version, events[i-1].Version)
	}
}
