package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
)

// clock is a ledger host's clock that a test moves.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.now.Store(1_790_000_000_000)
	return c
}

func (c *clock) Now() time.Time          { return time.UnixMilli(c.now.Load()).UTC() }
func (c *clock) Advance(d time.Duration) { c.now.Add(d.Milliseconds()) }

var (
	billing = ledger.Actor{Name: "billing", OSUser: "svc", Host: "h1", Machine: true}
	ann     = ledger.Actor{Name: "ann", OSUser: "ann", Host: "h1", Terminal: true}
	ctx     = context.Background()
)

// openTest makes a ledger in a directory of its own.
func openTest(t testing.TB) (*Store, *clock) {
	t.Helper()
	c := newClock()
	s := need.Get(Create(ctx, filepath.Join(t.TempDir(), "ledger.db"), Options{Clock: c.Now, Steady: hostclock.With(c.Now)}))(t)
	t.Cleanup(func() { s.Close() })
	return s, c
}

var serial atomic.Int64

func request(mod ...func(*ledger.BeginRequest)) ledger.BeginRequest {
	n := serial.Add(1)
	req := ledger.BeginRequest{
		ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
		Kind: "stripe.charge", Key: fmt.Sprintf("key-%d", n), Token: fmt.Sprintf("tok-%d", n), Fingerprint: fmt.Sprintf("fp-%d", n),
		Title: fmt.Sprintf("charge %d", n), Target: fmt.Sprintf("invoice %d", n), Session: "sess",
		Input:  json.RawMessage(fmt.Sprintf(`{"amount": %d, "big": 12345678901234567890}`, n)),
		Source: ledger.Source{Pipeline: "billing", Run: "r1", Host: "h1", PID: 42},
		Sender: "pipeline", TokenSent: true, Deadline: time.Minute, TTL: time.Hour, Host: "h1", PID: 42, Actor: billing,
	}
	for _, m := range mod {
		m(&req)
	}
	return req
}

func begin(t testing.TB, s *Store, mod ...func(*ledger.BeginRequest)) ledger.BeginResult {
	t.Helper()
	res := need.Get(ledger.Begin(ctx, s, request(mod...)))(t)
	return res
}

func settleAs(t testing.TB, s *Store, attempt string, outcome ledger.Outcome, mod ...func(*ledger.SettleRequest)) ledger.Operation {
	t.Helper()
	req := ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: attempt, Outcome: outcome, Actor: billing}
	switch outcome {
	case ledger.OutcomeFailed:
		req.Proof = ledger.Refused
	case ledger.OutcomeUncertain:
		req.ErrorClass, req.Error = ledger.ClassTimeout, "no answer"
	}
	for _, m := range mod {
		m(&req)
	}
	applied := need.Get(ledger.Settle(ctx, s, req))(t)
	return applied.After
}

// raw opens the ledger as a writer with SQLite's defaults does.
func rawDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db := need.Get(sql.Open("sqlite", dsnOf(path)))(t)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func dsnOf(path string) string {
	return "file://" + (&pathURL{path}).String() + "?mode=rw&_pragma=busy_timeout(5000)"
}

func TestLifeOfAnOperation(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	res := begin(t, s)
	need.Must(t, res.Answer == ledger.AnswerBegun, "answer %s", res.Answer)
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: res.Operation.ID}))(t)
	if d := diff(res.Operation, rec.Operation); d != "" {
		t.Fatalf("what was begun is not what is read:\n%s", d)
	}
	if len(rec.Attempts) != 1 || diff(res.Attempt, rec.Attempts[0]) != "" {
		t.Fatalf("attempt: %s", diff(res.Attempt, rec.Attempts[0]))
	}
	c.Advance(time.Second)
	o := settleAs(t, s, res.Attempt.ID, ledger.OutcomeUncertain)
	rec = need.Get(s.Read(ctx, ledger.Locator{AttemptID: res.Attempt.ID}))(t)
	if d := diff(o, rec.Operation); d != "" {
		t.Fatalf("what was settled is not what is read:\n%s", d)
	}
	page := need.Get(s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Now: c.Now()}))(t)
	listed := func(rec ledger.Record) ledger.Row {
		row := rec.Row()
		row.Group = rec.Group(false)
		return row
	}
	if len(page.Rows) != 1 || diff(page.Rows[0], listed(rec)) != "" {
		t.Fatalf("row: %s", diff(page.Rows[0], listed(rec)))
	}
	c.Advance(time.Second)
	applied := need.Get(ledger.Decide(ctx, s, ledger.Decision{ChangeID: ledger.NewID(), ID: o.ID, Version: o.Version,
		Verb: ledger.VerbConfirm, Receipts: []string{"ch_1"}, Reason: "found it", Actor: ann}))(t)
	rec = need.Get(s.Read(ctx, ledger.Locator{ID: o.ID[:30]}))(t)
	if d := diff(applied.After, rec.Operation); d != "" {
		t.Fatalf("what was decided is not what is read:\n%s", d)
	}
	for _, tab := range []ledger.Tab{ledger.TabSettled, ledger.TabAll} {
		page = need.Get(s.Page(ctx, ledger.Query{Tab: tab, Now: c.Now()}))(t)
		if len(page.Rows) != 1 || diff(page.Rows[0], listed(rec)) != "" {
			t.Fatalf("%s: %+v %s", tab, page, diff(page.Rows[0], listed(rec)))
		}
	}
	events := need.Get(s.History(ctx, ledger.HistoryQuery{Operation: o.ID, Limit: 10}))(t)
	need.Must(t, len(events) == 3, "%d events", len(events))
	e := events[2]
	if e.Verb != "confirm" || e.Actor != ann || e.Reason != "found it" || e.From != ledger.Uncertain || e.To != ledger.Committed || e.Version != 3 || !e.At.Equal(c.Now()) {
		t.Fatalf("event %+v", e)
	}
	counts := need.Get(s.Counts(ctx, c.Now()))(t)
	need.Must(t, counts.Settled == 1 && counts.All == 1 && counts.NeedsYou == 0 && counts.ByState[ledger.Committed] == 1, "counts %+v", counts)
}

func TestFailedJobIsUndoneAlone(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	var wg sync.WaitGroup
	var ok, bad atomic.Int32
	for i := range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			req := request()
			if i%4 == 0 {
				req.Input = json.RawMessage(`not json`)
			}
			if _, err := ledger.Begin(ctx, s, req); err != nil {
				bad.Add(1)
			} else {
				ok.Add(1)
			}
		}()
	}
	wg.Wait()
	if ok.Load() != 48 || bad.Load() != 16 {
		t.Fatalf("%d begun, %d refused", ok.Load(), bad.Load())
	}
	if c := need.Get(s.Counts(ctx, s.now()))(t); c.All != 48 || c.InFlight != 48 {
		t.Fatalf("%+v", c)
	}
}

func TestWatchHearsAnotherStore(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	other := need.Get(Open(ctx, s.path, Options{ReadOnly: true}))(t)
	defer other.Close()
	wctx, cancel := context.WithCancel(ctx)
	heard := other.Watch(wctx)
	begin(t, s)
	select {
	case <-heard:
	case <-time.After(time.Minute):
		t.Fatal("not heard")
	}
	cancel()
	for range heard {
	}
}

// What is committed while the receiver is busy is told once, and none of it is
// missed.
func TestWatchTellsTheBusyOnce(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	other := need.Get(Open(ctx, s.path, Options{ReadOnly: true}))(t)
	defer other.Close()
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := other.Watch(wctx)
	last := func() (seq int64) {
		need.OK(t, other.one(ctx, `SELECT max(seq) FROM ev`, &seq))
		return seq
	}
	for range need.Steps(3, 20) {
		for range 10 {
			begin(t, s)
		}
		want, told := last(), 0
		for seen := int64(0); seen < want; told++ {
			select {
			case <-heard:
				seen = last()
			case <-time.After(time.Minute):
				t.Fatal("not heard")
			}
		}
		// One that was on its way when the last was committed may come behind it.
		for quiet := false; !quiet; {
			select {
			case <-heard:
				told++
			case <-time.After(30 * time.Millisecond):
				quiet = true
			}
		}
		need.Must(t, told <= 3, "told %d times of ten commits", told)
	}
}

// commits are those in the log: the frames that end one.
func commits(t testing.TB, path string) (n int) {
	t.Helper()
	log := need.Get(os.ReadFile(path + "-wal"))(t)
	for at := walHeader; at+frameHeader <= len(log) && bytes.Equal(log[at+8:at+16], log[16:24]); at += frameHeader + 4096 {
		if binary.BigEndian.Uint32(log[at+4:]) != 0 {
			n++
		}
	}
	return n
}

// Callers that are about to write share one transaction, also on one processor.
func TestThoseWhoWriteAtOnceShareOneSync(t *testing.T) {
	s, _ := openTest(t)
	begin(t, s)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fewest := 64
	for range 5 { // something else may run in between
		before := commits(t, s.path)
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() { begin(t, s) })
		}
		all.Wait()
		fewest = min(fewest, commits(t, s.path)-before)
	}
	need.That(t, fewest == 1, "64 callers took %d transactions at least", fewest)
}

// now is the wall's time.
func (s *handle) now() time.Time { return s.moment().Wall }
