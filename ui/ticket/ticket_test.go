package ticket

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

var at = time.Date(2026, 7, 14, 2, 15, 10, 0, time.UTC)

// operation is one in doubt, priced, whose only attempt got no answer.
func operation(change func(*ledger.Record)) Ticket {
	rec := ledger.Record{Found: true, Now: at, Operation: ledger.Operation{
		ID: "1", Kind: "pay", State: ledger.Uncertain, Version: 2, Doubted: true, Effects: 0, Actor: "billing", AttemptCount: 1,
		Source:    ledger.Source{Pipeline: "billing"},
		CreatedAt: at.Add(-2 * time.Hour), UpdatedAt: at.Add(-time.Hour), DoubtedAt: at.Add(-time.Hour), DeadlineAt: at.Add(-time.Hour),
	}, Attempts: []ledger.Attempt{{N: 1, Outcome: ledger.OutcomeUncertain}}}
	rec.Pricing = ledger.Pricing{OperationID: "1", Digest: "d", Duplicate: ledger.Cost{Value: 24_000}, Miss: ledger.Cost{Value: 10, Guess: true, Word: "medium"}, DecideAt: ledger.Never, ReadAt: ledger.Never}
	change(&rec)
	return From(rec, func(ledger.Record, time.Time) Facts {
		return Facts{Advice: policy.Advice{Verb: "look", Odds: policy.Odds{P: 0.5}}}
	}, time.UTC)
}

// What stands in each column, over every state and conflict.
func TestCells(t *testing.T) {
	state := func(s ledger.State) func(*ledger.Record) {
		return func(r *ledger.Record) { r.Operation.State = s }
	}
	conflict := func(c ledger.Conflict) func(*ledger.Record) {
		return func(r *ledger.Record) {
			r.Operation.State, r.Operation.Conflict, r.Operation.Effects = ledger.Committed, c, 2
		}
	}
	for name, c := range map[string]struct {
		change            func(*ledger.Record)
		landed, clock, do string
	}{
		"in doubt, no case":   {func(*ledger.Record) {}, "?", "no check", "look"},
		"found, for a person": {func(r *ledger.Record) { r.Operation.Verdict = ledger.Landed }, "seen", "no check", "look"},
		"not there now":       {func(r *ledger.Record) { r.Operation.Verdict = ledger.Absent }, "not now", "no check", "look"},
		"parked":              {func(r *ledger.Record) { r.Operation.ParkedUntil = at.Add(30 * time.Minute) }, "?", "parked 30m", "look"},
		"in flight":           {func(r *ledger.Record) { state(ledger.Pending)(r); r.Operation.DeadlineAt = at.Add(20 * time.Second) }, "…", "ends 20s", "wait for its answer"},
		"its deadline passed": {state(ledger.Pending), "?", "no check", "look"},
		"landed":              {state(ledger.Committed), "yes", "01:15:10", "by billing"},
		"refused":             {func(r *ledger.Record) { state(ledger.Failed)(r); r.Operation.Doubted = false }, "no", "01:15:10", "by billing"},
		"proven":              {func(r *ledger.Record) { state(ledger.Failed)(r); r.Attempts[0].Proof = ledger.ProvenAbsent }, "no", "–", "look"},
		"on a person's word":  {state(ledger.Failed), "said no", "–", "look"},
		"abandoned":           {state(ledger.Abandoned), "unknown", "01:15:10", "by billing"},
		"twice":               {conflict(ledger.Duplicate), "TWICE", "–", "cancel one of two"},
		"three times":         {func(r *ledger.Record) { conflict(ledger.Duplicate)(r); r.Operation.Effects = 3 }, "3 TIMES", "–", "cancel 2 of 3"},
		"perhaps twice":       {conflict(ledger.PossibleDuplicate), "maybe 2", "–", "look at both sides"},
		"another than meant":  {conflict(ledger.MismatchConflict), "differs", "–", "look at both sides"},
		"contradicted":        {conflict(ledger.Contradiction), "WRONG?", "–", "look at both sides"},
		"overtaken":           {func(r *ledger.Record) { r.Related = []ledger.Relation{{ID: "2", Overtook: true}} }, "?", "overtaken", "look: overtaken"},
		"a twin":              {func(r *ledger.Record) { r.Related = []ledger.Relation{{ID: "2"}} }, "?", "no check", "look: twin"},
	} {
		o := operation(c.change)
		clock, _ := o.Clock()
		if landed, do := o.Landed(20), o.Do(20); landed != c.landed || clock != c.clock || do != c.do {
			t.Errorf("%s: %q %q %q; want %q %q %q", name, landed, clock, do, c.landed, c.clock, c.do)
		}
		if o.Twice() != "24.0k" || o.Never() != "~10" {
			t.Errorf("%s costs %q and %q", name, o.Twice(), o.Never())
		}
		if known, _ := o.Known(); known == "" {
			t.Errorf("%s: nothing is said to be known", name)
		}
	}
}

// A row whose record is not read yet claims nothing.
func TestARowAloneClaimsNothing(t *testing.T) {
	o := operation(func(*ledger.Record) {})
	o.Record, o.Facts, o.Row.Pricing = nil, Facts{}, ledger.Pricing{}
	if clock, _ := o.Clock(); o.Landed(20) != "…" || o.Do(20) != "…" || clock != "" || o.Twice() != "…" {
		t.Errorf("%q %q %q %q", o.Landed(20), o.Do(20), clock, o.Twice())
	}
}
