package reconcile

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What a check found is signed by the check, with where and for whom it was made:
// the person who asked has decided nothing.
func TestACheckSignsForItself(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	e := w.newEngine(Options{Actor: ledger.Actor{Name: "vera", Terminal: true}, Program: "console"})
	asked := w.doubt("pay", 1, 1)
	need.Get(e.ReadNow(w.ctx, asked.ID))(t)
	first := w.doubt("pay", 2, 2)
	rec := w.get(first.ID)
	res, err := e.Retry(w.ctx, w.shown(e, RetryRequest{ID: first.ID, Version: rec.Operation.Version, Basis: ledger.BasisRiskAccepted, Reason: "must", Actor: maya, LossTyped: true}))
	need.Must(t, err == nil && res.Did == DidLand, "%+v %v", res, err)
	for id, want := range map[string]string{asked.ID: "checks, console of vera", first.ID: "checks, console of maya"} {
		rec := w.get(id)
		events := need.Get(w.store.History(w.ctx, ledger.HistoryQuery{Operation: id, Limit: 100}))(t)
		last := events[len(events)-1]
		if o := rec.Operation; o.State != ledger.Committed || o.Actor != want || o.Hands != "" || rec.Reads[0].Actor != want {
			t.Errorf("%s, signed by %q, acted on by %q, its read by %q", o.State, o.Actor, o.Hands, rec.Reads[0].Actor)
		}
		need.That(t, last.Verb == "read" && last.Actor.Name == want && last.Actor.Machine && !last.Actor.Terminal, "%s by %+v", last.Verb, last.Actor)
	}
}

// What was found is said not to be this one's: the check before a retry finds it again
// and does not stand in the way for ever.
func TestTheCheckBeforeARetryKnowsWhatWasDealtWith(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	o := w.doubt("pay", 1, 1)
	decide := func(d ledger.Decision) {
		t.Helper()
		d.ChangeID, d.ID, d.Version, d.Actor, d.Reason = ledger.NewID(), o.ID, w.get(o.ID).Operation.Version, maya, "asked their support"
		need.Get(ledger.Decide(w.ctx, w.store, d))(t)
	}
	decide(ledger.Decision{Verb: ledger.VerbDeny})
	w.read(o.ID)
	need.Equal(t, w.get(o.ID).Operation.Conflict, ledger.ConflictDisputed, "conflict")
	decide(ledger.Decision{Verb: ledger.VerbAck, Truth: ledger.NotLanded})
	rec := w.get(o.ID)
	a := w.inForce().Kind("pay").Advise(rec, rec.Now)
	need.That(t, a.Verb == "look", "advice %s: %s", a.Verb, a.Reason)
	res, err := w.retry(RetryRequest{ID: o.ID, Version: rec.Operation.Version, Basis: ledger.BasisRiskAccepted, Reason: "must", LossTyped: true})
	need.Must(t, err == nil && res.Did == DidSend, "%s: %s %v", res.Did, res.Why, err)
	w.pass(time.Minute)
	w.once()
	now := w.get(o.ID).Operation
	need.That(t, now.Conflict == ledger.ConflictTwice && now.PersonOnly, "%s, conflict %q", now.State, now.Conflict) // two are there now, whosever they are
}
