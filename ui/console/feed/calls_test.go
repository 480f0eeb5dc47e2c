package feed

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ui/ticket"
)

// screenful is a list on the screen whose first row is chosen.
type screenful struct{ rows []Row }

func (screenful) Wanted() Wanted   { return Wanted{Tab: ledger.TabNeedsYou, Limit: 100} }
func (s screenful) Chosen() *Row   { return &s.rows[0] }
func (s screenful) Visible() []Row { return s.rows }

// asked is a ledger that counts what it is asked, by the kind of question.
type asked struct {
	ledger.Store
	mu    sync.Mutex
	calls map[string]int
}

func (a *asked) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[what]++
}

func (a *asked) Read(ctx context.Context, at ledger.Locator) (ledger.Record, error) {
	a.count("read")
	return a.Store.Read(ctx, at)
}

func (a *asked) Records(ctx context.Context, ids []string) ([]ledger.Record, error) {
	a.count("records")
	return a.Store.Records(ctx, ids)
}

func (a *asked) History(ctx context.Context, q ledger.HistoryQuery) ([]ledger.Event, error) {
	a.count("history")
	return a.Store.History(ctx, q)
}

func (a *asked) Page(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	a.count("page")
	return a.Store.Page(ctx, q)
}

func (a *asked) Follow(ctx context.Context, since ledger.Cursor, limit int) ([]ledger.Event, ledger.Cursor, error) {
	a.count("follow")
	return a.Store.Follow(ctx, since, limit)
}

// A ledger is asked as often for a screenful as for a row.
func TestALookAsksAsOftenForManyRowsAsForOne(t *testing.T) {
	calls := func(rows int) string {
		now := time.Date(2026, 9, 21, 14, 0, 0, 0, time.UTC)
		s := &asked{Store: ledgertest.NewMemory(func() time.Time { return now }, nil)}
		o := &outages{t: t, s: &reader{Store: s}, now: now}
		for range rows {
			id, attempt := o.begin(1, ledger.NewID())
			o.settle(attempt, ledger.OutcomeUncertain)
			o.ids = append(o.ids, id)
		}
		said := ""
		count := func(what string, do func()) {
			s.calls = map[string]int{}
			do()
			said += fmt.Sprintln(what, s.calls)
		}
		w := Wanted{Tab: ledger.TabNeedsYou, Limit: 100, Visible: 40, zone: time.UTC}
		var seen Looked
		look := func(since ledger.Cursor) { seen = look(t.Context(), s, w, now, since); need.OK(t, seen.err) }
		count("a list", func() { look("") })
		place := seen.place
		judge := func(ledger.Record, time.Time) ticket.Facts { return ticket.Facts{} }
		f := &Feed{Store: s, ctx: t.Context(), briefs: map[string]*Brief{},
			o: Options{Judge: judge, Clock: func() time.Time { return now }, Shown: screenful{seen.operations()}}}
		details := func() { f.tookBriefs(f.Details()().(briefsMsg)) }
		count("the row under the cursor", details)
		need.Equal(t, len(f.briefs), 1, "it comes first")
		count("the others", details)
		need.Equal(t, len(f.briefs), rows)
		for _, id := range o.ids { // a run elsewhere
			op := need.Get(s.Store.Read(t.Context(), ledger.Locator{ID: id}))(t).Operation
			need.Get(ledger.Decide(t.Context(), s.Store, ledger.Decision{ChangeID: ledger.NewID(), ID: id, Version: op.Version, Verb: ledger.VerbConfirm, Reason: "asked", Actor: sam}))(t)
		}
		w.Known = o.ids
		count("a list that was left", func() { look(place) })
		need.Equal(t, len(seen.Left), rows)
		return said
	}
	need.Equal(t, calls(40), calls(2))
}

// operations are the rows of a look that are operations.
func (msg *Looked) operations() (rows []Row) {
	for _, r := range msg.Rows {
		if r.Operation() {
			rows = append(rows, r)
		}
	}
	return rows
}
