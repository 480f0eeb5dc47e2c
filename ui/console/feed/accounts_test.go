package feed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"

	"github.com/google/go-cmp/cmp"
)

// reader counts how often an account is read.
type reader struct {
	ledger.Store
	accounts int
}

func (r *reader) Outage(ctx context.Context, id string, now time.Time) (ledger.OutageAccount, error) {
	r.accounts++
	return r.Store.Outage(ctx, id, now)
}

// outages is a ledger with outages that a feed looks at, and a clock.
type outages struct {
	t     *testing.T
	s     *reader
	f     *Feed
	now   time.Time
	ids   []string // operations
	tries []string // their attempts
}

var sam = ledger.Actor{Name: "sam", Terminal: true}

func newOutages(t *testing.T) *outages {
	o := &outages{t: t, now: time.Date(2026, 9, 21, 14, 0, 0, 0, time.UTC)}
	o.s = &reader{Store: ledgertest.NewMemory(func() time.Time { return o.now }, nil)}
	t.Cleanup(func() { o.s.Close() })
	o.f = New(t.Context(), Options{Store: o.s, Shown: nothing{}, Clock: func() time.Time { return o.now }, Zone: time.UTC})
	return o
}

func (o *outages) begin(scope int, input string) (operation, attempt string) {
	id := ledger.NewID()
	r := need.Get(ledger.Begin(o.t.Context(), o.s, ledger.BeginRequest{ChangeID: ledger.NewID(), AttemptID: ledger.NewID(), OperationID: id, Kind: fmt.Sprint("pay", scope), Key: id, Token: "tok-" + id,
		Fingerprint: input, TokenSent: true, Deadline: time.Minute, Actor: ledger.Actor{Name: "billing", Machine: true}}))(o.t)
	return id, r.Attempt.ID
}

func (o *outages) settle(attempt string, outcome ledger.Outcome) {
	_, _ = ledger.Settle(o.t.Context(), o.s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: attempt, Outcome: outcome, TokenSent: true, Status: -1, Actor: ledger.Actor{Name: "billing", Machine: true}})
	need.OK(o.t, o.s.Fold(o.t.Context(), nil, nil, true, func(string) ledger.Burst { return ledger.Burst{Errors: 1} }))
}

// doubt is an error in the outage of a scope.
func (o *outages) doubt(scope int, input string) {
	id, attempt := o.begin(scope, input)
	o.settle(attempt, ledger.OutcomeUncertain)
	o.ids, o.tries = append(o.ids, id), append(o.tries, attempt)
}

func (o *outages) look() *Looked {
	o.t.Helper()
	msg := look(o.t.Context(), o.s, o.f.wanted(), o.now, o.f.place)
	need.OK(o.t, msg.err)
	o.f.took(msg)
	return &msg
}

// compare looks for an account that is not as it would be read.
func (o *outages) compare(after string, at func(account) time.Time) {
	o.t.Helper()
	for _, shown := range o.f.Outages {
		a := o.f.accounts[shown.ID]
		want := need.Get(o.s.Store.Outage(o.t.Context(), shown.ID, at(a)))(o.t)
		if d := cmp.Diff(want, shown.OutageAccount); d != "" {
			o.t.Fatalf("after %s the account of %s is stale (-fresh +shown):\n%s", after, shown.Scope, d)
		}
	}
}

// told makes a change that the history tells of, or the sums of its outage.
func (o *outages) told(r *rand.Rand) string {
	ctx := o.t.Context()
	i := r.IntN(len(o.ids))
	rec := need.Get(o.s.Read(ctx, ledger.Locator{ID: o.ids[i]}))(o.t)
	op := rec.Operation
	decide := func(verb ledger.Verb) string {
		_, err := ledger.Decide(ctx, o.s, ledger.Decision{ChangeID: ledger.NewID(), ID: op.ID, Version: op.Version, Verb: verb, Reason: "as their page says", Truth: ledger.LandedOnce,
			Receipts: []string{ledger.NewID()}[:map[bool]int{true: 1}[verb == ledger.VerbConfirm]], Until: o.now.Add(20 * time.Second), Actor: sam})
		return fmt.Sprint(verb, " ", err)
	}
	switch r.IntN(10) {
	case 0:
		o.doubt(r.IntN(14), ledger.NewID())
		return "an error"
	case 1:
		o.settle(o.tries[i], ledger.OutcomeCommitted)
		return "a late answer"
	case 2, 3, 4:
		verbs := []ledger.Verb{ledger.VerbConfirm, ledger.VerbDeny, ledger.VerbAbandon, ledger.VerbPark, ledger.VerbUndo, ledger.VerbAck}
		return decide(verbs[r.IntN(len(verbs))])
	case 5:
		_, err := ledger.Allow(ctx, o.s, ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), OperationID: op.ID, Version: op.Version, Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: sam,
			Reason: "they wait", ExpiresAt: o.now.Add(40 * time.Second)})
		return fmt.Sprint("a permission ", err)
	case 6:
		if holds := need.Get(o.s.Holds(ctx, o.now))(o.t); len(holds) > 0 {
			need.OK(o.t, o.s.LiftHold(ctx, ledger.Lift{Scope: "kind:pay1", Actor: sam, Reason: "over", ChangeID: ledger.NewID()}))
			return "the end of a hold"
		}
		need.OK(o.t, o.s.Hold(ctx, ledger.Hold{ChangeID: ledger.NewID(), Scope: "kind:pay1", Reason: "wait", Actor: sam}))
		return "a hold"
	case 7:
		run := ledger.DecisionRun{ID: ledger.NewID(), Verb: "abandon", Actor: sam, Terms: ledger.RunTerms{Reason: "over"}, CreatedAt: o.now}
		_, _, err := o.s.Run(ctx, run, []ledger.RunItem{{OperationID: op.ID, Version: op.Version, Kind: op.Kind}, {N: 1, OperationID: o.ids[0], Version: 1, Kind: op.Kind}})
		return fmt.Sprint("a run ", err)
	case 8:
		need.OK(o.t, o.s.Price(ctx, []ledger.Pricing{{OperationID: op.ID, Digest: ledger.NewID(), Miss: ledger.Cost{Value: 1 + r.Float64()}, DecideAt: []time.Time{ledger.Never, {}}[r.IntN(2)]}}))
		return "a price"
	}
	c := ledger.OutageChange{ChangeID: ledger.NewID(), ID: rec.Outages[0], Actor: sam, Reason: "seen", Until: o.now.Add(time.Minute)}
	c.Verb = []string{ledger.OutageNoted, ledger.OutageTaken}[r.IntN(2)]
	_, err := o.s.ChangeOutage(ctx, c)
	return fmt.Sprint(c.Verb, " ", err)
}

// untold makes a change that no event of an outage tells of.
func (o *outages) untold(r *rand.Rand) string {
	ctx := o.t.Context()
	i := r.IntN(len(o.ids))
	op := need.Get(o.s.Read(ctx, ledger.Locator{ID: o.ids[i]}))(o.t).Operation
	switch r.IntN(4) {
	case 0:
		need.OK(o.t, o.s.Price(ctx, []ledger.Pricing{{OperationID: op.ID, Digest: ledger.NewID(), Miss: need.Get(o.s.Read(ctx, ledger.Locator{ID: op.ID}))(o.t).Pricing.Miss, DecideAt: []time.Time{ledger.Never, {}}[r.IntN(2)]}}))
		return "another clock"
	case 1:
		_, attempt := o.begin(r.IntN(11), op.Fingerprint)
		o.settle(attempt, ledger.OutcomeCommitted)
		return "a later one elsewhere"
	case 2:
		_, err := ledger.Observe(ctx, o.s, ledger.Observation{ChangeID: ledger.NewID(), Version: op.Version, Actor: sam,
			Read: ledger.Read{ID: ledger.NewID(), OperationID: op.ID, BeganAt: o.now, EndedAt: o.now, Verdict: ledger.CannotTell, Reason: "a page is missing"}})
		return fmt.Sprint("a read ", err)
	}
	o.now = o.now.Add(time.Duration(r.IntN(90)) * time.Second)
	return "a while"
}

// What a look shows of an outage is what the ledger says of it: at once where the history
// tells of the change, and within half a minute where nothing does.
func TestNoAccountIsStale(t *testing.T) {
	for seed := range uint64(need.Steps(2, 6)) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := newOutages(t)
		for i := range 40 {
			o.doubt(i%11, ledger.NewID())
		}
		o.look()
		for round := range 12 {
			for range 6 {
				what := o.told(r)
				o.look()
				o.compare(fmt.Sprintf("%s (seed %d, round %d)", what, seed, round), func(account) time.Time { return o.now })
			}
			what := fmt.Sprintf("%s (seed %d, round %d)", o.untold(r), seed, round)
			o.compare(what, o.rested(what))
		}
	}
	// Many accounts that are read and not shown keep none that is shown from being read.
	o := newOutages(t)
	for i := range 40 {
		o.doubt(i, ledger.NewID())
		op := need.Get(o.s.Read(t.Context(), ledger.Locator{ID: o.ids[i]}))(t).Operation
		need.Get(ledger.Decide(t.Context(), o.s, ledger.Decision{ChangeID: ledger.NewID(), ID: op.ID, Version: op.Version, Verb: ledger.VerbPark, Until: o.now.Add(24 * time.Hour), Actor: sam}))(t)
	}
	o.now = o.now.Add(time.Hour)
	o.doubt(99, ledger.NewID())
	o.look()
	for range 2 {
		o.compare("many that are parked", o.rested("many that are parked"))
	}
}

// rested looks as while nothing happens, for as long as an account may be old, and gives
// the time that each was read at.
func (o *outages) rested(after string) func(account) time.Time {
	o.t.Helper()
	began := o.now
	for o.now.Before(began.Add(accountAtMost)) {
		o.now = o.now.Add(5 * time.Second)
		o.look()
	}
	return func(a account) time.Time {
		if !a.at.After(began) {
			o.t.Fatalf("after %s an account is shown that was read %s before", after, began.Sub(a.at))
		}
		return a.at
	}
}

// Beside a writer only the accounts of what changed are read, and the rows stay however
// many other outages have newer errors.
func TestAnAccountIsReadWhereItChanged(t *testing.T) {
	o := newOutages(t)
	all := need.Steps(40, 100)
	for i := range 4 * all {
		o.doubt(i%all, ledger.NewID())
	}
	rows := func() (ids []string) {
		for _, r := range o.f.Outages {
			ids = append(ids, r.ID)
		}
		return ids
	}
	o.look()
	known := map[string]bool{}
	for _, id := range rows() {
		known[id] = true
	}
	need.Must(t, o.s.accounts == foldsAtMost && len(known) == foldsAtMost,
		"%d accounts are read for %d rows", o.s.accounts, len(known))
	for n := range all {
		o.s.accounts = 0
		o.now = o.now.Add(10 * time.Millisecond)
		o.doubt(n, ledger.NewID())
		in := need.Get(o.s.Read(t.Context(), ledger.Locator{ID: o.ids[len(o.ids)-1]}))(t).Outages[0]
		o.look()
		if want := map[bool]int{true: 1}[known[in]]; o.s.accounts != want {
			t.Fatalf("an error of %s, with a row: %t: %d accounts are read", in, known[in], o.s.accounts)
		}
		for _, id := range rows() {
			need.Must(t, known[id], "%s has a row after an error of %s", id, in)
		}
	}
	// One that is far larger than the others gets a row nevertheless.
	for range 80 {
		o.doubt(200, ledger.NewID())
	}
	o.look()
	if o.f.Outages[0].Outage.Errors() != 80 {
		t.Fatalf("the largest outage has no row: %v", rows())
	}
}

// An outage of which everything has landed takes no row from one that has something open.
func TestWhatIsOpenHasARowFirst(t *testing.T) {
	o := newOutages(t)
	o.doubt(0, ledger.NewID())
	o.now = o.now.Add(time.Hour)
	for i := range foldsAtMost {
		o.doubt(1+i, ledger.NewID())
		o.settle(o.tries[1+i], ledger.OutcomeCommitted)
	}
	o.look()
	if len(o.f.Outages) != foldsAtMost || o.f.Outages[0].Needs().N != 1 {
		t.Errorf("%d rows, the first with %d open", len(o.f.Outages), o.f.Outages[0].Needs().N)
	}
}
