package act

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/reconcile"
	"indoubt/ui/safe"
)

// keeper is a store that keeps what is written down of a run, and can refuse it.
type keeper struct {
	ledger.Store
	refuse error
	report string
}

func (k *keeper) Run(ctx context.Context, r ledger.DecisionRun) (ledger.DecisionRun, bool, error) {
	if k.refuse != nil {
		return ledger.DecisionRun{}, false, k.refuse
	}
	return k.Store.Run(ctx, r)
}

func (k *keeper) Progress(ctx context.Context, id string, done int, report json.RawMessage) error {
	k.report = string(report)
	return k.Store.Progress(ctx, id, done, report)
}

func newKeeper() *keeper { return &keeper{Store: ledgertest.NewMemory(time.Now, nil)} }

// goOn carries out what may begin.
func goOn(t *testing.T, r *Run) {
	t.Helper()
	for work := r.Next(); work != nil; work = r.Next() {
		if r.Next() != nil {
			t.Fatal("two items are under way")
		}
		r.Take(work(t.Context()))
	}
}

var (
	landed    = Sent(reconcile.RetryResult{Did: reconcile.DidSend, Operation: ledger.Operation{State: ledger.Committed}}, nil)
	failed    = Sent(reconcile.RetryResult{Did: reconcile.DidSend, Operation: ledger.Operation{State: ledger.Failed}}, nil)
	unclear   = Sent(reconcile.RetryResult{Did: reconcile.DidSend, Operation: ledger.Operation{State: ledger.Uncertain}}, nil)
	refused   = Sent(reconcile.RetryResult{Did: reconcile.DidRefuse}, nil)
	elsewhere = Sent(reconcile.RetryResult{}, &ledger.MovedError{Actor: "sam"})
	broken    = Sent(reconcile.RetryResult{}, errors.New("connection refused"))
)

func TestWhenARunStopsAndPauses(t *testing.T) {
	for name, c := range map[string]struct {
		results  []Result
		tryFirst int
		done     int
		over     string
		paused   bool
	}{
		"all landed":                      {[]Result{landed, landed, landed, landed, landed}, 0, 5, "done", false},
		"three without a clear answer":    {[]Result{unclear, landed, unclear, unclear, landed}, 0, 4, "stopped after 3 failed or unclear", false},
		"failed, unclear and an error":    {[]Result{failed, unclear, broken, landed, landed}, 0, 3, "stopped after 3 failed or unclear", false},
		"moved and refused are no outage": {[]Result{elsewhere, elsewhere, refused, refused, elsewhere}, 0, 5, "done", false},
		"watched":                         {[]Result{landed, landed, landed, landed, landed}, 2, 2, "", true},
		"watched to its end":              {[]Result{landed, landed}, 2, 2, "done", false},
	} {
		items := make([]Item, len(c.results))
		for i := range items {
			items[i] = Item{ID: string(rune('a' + i)), Version: 2}
		}
		r := New(newKeeper(), ledger.DecisionRun{Verb: "retry"}, items, func(_ context.Context, at int, _ string) Result { return c.results[at] })
		r.TryFirst = c.tryFirst
		goOn(t, r)
		if len(r.Results) != c.done || r.Over() != c.over || r.Paused() != c.paused || r.Left() != len(items)-c.done {
			t.Errorf("%s: %d done, %q, paused %t, %d left", name, len(r.Results), r.Over(), r.Paused(), r.Left())
		}
		r.Resume()
		for goOn(t, r); r.Left() > 0; goOn(t, r) {
			r.Resume()
		}
		if len(r.Results) != len(items) {
			t.Errorf("%s: after it went on %d are done", name, len(r.Results))
		}
	}
}

func TestNothingIsDecidedBeforeTheRunIsWrittenDown(t *testing.T) {
	k := newKeeper()
	k.refuse = errors.New("disk full")
	did := 0
	r := New(k, ledger.DecisionRun{Verb: "deny"}, make([]Item, 5), func(context.Context, int, string) Result { did++; return landed })
	goOn(t, r)
	if did > 0 || r.Over() != "stopped after 3 failed or unclear" || !r.Facts()[0].Grave {
		t.Errorf("%d were decided, %q, %q", did, r.Over(), r.Facts()[0].Text)
	}
}

// A run that was broken off goes on with the versions and the change ids that it had
// before, and does nothing twice.
func TestI10_ARunThatWasBrokenOffGoesOn(t *testing.T) {
	k := newKeeper()
	var items []Item
	for _, key := range []string{"a", "b", "c"} {
		res, err := ledger.Begin(t.Context(), k, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: key, Token: ledger.NewToken(),
			Input: []byte(`{}`), Deadline: time.Minute, Actor: ledger.Actor{Name: "billing", Machine: true}})
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, Item{ID: res.Operation.ID, Version: res.Operation.Version, Title: safe.Of(key)})
	}
	var did []string
	run := func(seen int64) *Run {
		set := slices.Clone(items)
		for i := range set {
			set[i].Version += seen
		}
		return New(k, ledger.DecisionRun{IdempotencyKey: "k", Verb: "note", CreatedAt: time.Now()}, set, func(ctx context.Context, at int, change string) Result {
			did = append(did, set[at].Title.String())
			_, err := ledger.Decide(ctx, k, ledger.Decision{ChangeID: change, ID: set[at].ID, Verb: ledger.VerbNote, Reason: "r", Actor: ledger.Actor{Name: "sam"}})
			return Result{Word: safe.Say("noted"), Err: err}
		})
	}
	first := run(0)
	for range 2 { // and then it was killed
		first.Take(first.Next()(t.Context()))
	}
	again := run(7)
	goOn(t, again)
	if got := strings.Join(did, ""); got != "abc" || again.Tally().String() != "2 done before · 1 noted" || again.Items[2].Version != items[2].Version || again.ID() != first.ID() {
		t.Errorf("it did %q, which is %q, with %+v", got, again.Tally(), again.Items)
	}
	if err := again.Finish()(t.Context()); err != nil || !strings.Contains(k.report, `"how":"done"`) || !strings.Contains(k.report, items[2].ID) {
		t.Errorf("%v %s", err, k.report)
	}
}
