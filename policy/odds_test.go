package policy

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/advice"
)

func TestI6_ProofAt(t *testing.T) {
	p := must(t, priced)
	at, ok := p.Kind("proof").ProofAt(doubt("proof"))
	if want := noon.Add(2*time.Minute + 30*time.Second + time.Second); !ok || !at.Equal(want) {
		t.Error(at, ok)
	}
	later := doubt("proof")
	later.Attempts = append(later.Attempts, ledger.Attempt{N: 2, TokenSent: true, DeadlineAt: noon.Add(time.Hour)})
	if at, _ := p.Kind("proof").ProofAt(later); !at.Equal(noon.Add(time.Hour + 2*time.Minute + 31*time.Second)) {
		t.Error("the latest end of any attempt counts", at)
	}
	left := doubt("proof")
	left.Attempts[0].Tree, left.Attempts[0].TreeAt = ledger.TreeEmpty, noon.Add(time.Hour)
	if at, _ := p.Kind("proof").ProofAt(left); !at.Equal(noon.Add(time.Hour + 2*time.Minute + 31*time.Second)) {
		t.Error("the end of what it had started counts", at)
	}
	lost := doubt("proof")
	lost.Gap = noon.Add(time.Hour)
	if at, _ := p.Kind("proof").ProofAt(lost); !at.Equal(noon.Add(time.Hour + 2*time.Minute + 31*time.Second + p.Kind("proof").Deadline)) {
		t.Error("the end of one that the ledger may have lost counts", at)
	}
	for name, change := range map[string]func(*Kind, *ledger.Record){
		"a command may be lost":   func(_ *Kind, r *ledger.Record) { r.Gap, r.Operation.Command = noon, &ledger.Command{} },
		"no read":                 func(k *Kind, _ *ledger.Record) { k.CanSee, k.CanProve = false, false },
		"lands_within not stated": func(k *Kind, _ *ledger.Record) { k.LandsWithin = nil },
		"visible_within missing":  func(k *Kind, _ *ledger.Record) { k.VisibleWithin = nil },
		"out of sight by then":    func(k *Kind, _ *ledger.Record) { d := 2 * time.Minute; k.VisibleFor = &d },
		"a person settles":        func(_ *Kind, r *ledger.Record) { r.Operation.PersonOnly = true },
		"token never sent":        func(_ *Kind, r *ledger.Record) { r.Operation.TokenSent, r.Attempts[0].TokenSent = false, false },
		"one went without it":     func(_ *Kind, r *ledger.Record) { r.Attempts = append(r.Attempts, ledger.Attempt{N: 2, EndedAt: noon}) },
		"a process may write":     func(_ *Kind, r *ledger.Record) { r.Attempts[0].Tree = ledger.TreeOpen },
		"looks for content":       func(k *Kind, _ *ledger.Record) { k.CanProve = p.Kind("hope").CanProve },
	} {
		k, rec := p.Kind("proof"), doubt("proof")
		change(k, &rec)
		at, ok := k.ProofAt(rec)
		need.That(t, !ok, "%s: provable at %v", name, at)
	}
}

func TestOddsByHistory(t *testing.T) {
	p := must(t, priced)
	k := p.Kind("proof")
	o := k.Odds(doubt("proof"))
	need.That(t, o.P == 0.5 && o.N == 0 && strings.Contains(o.Why, "a guess") && math.Abs(o.Low-0.06) <= 0.01 && math.Abs(o.High-0.94) <= 0.01, "%+v", o)
	k = p.WithHistory(advice.History([]ledger.DoubtCount{{Kind: "proof", Class: ledger.ClassTimeout, Landed: 2, Missed: 2}})).Kind("proof")
	o = k.Odds(doubt("proof"))
	need.That(t, o.N == 4 && math.Abs(o.P-0.5) <= 1e-9 && math.Round(o.Low*100) == 17 && math.Round(o.High*100) == 83, "%+v", o) // Beta(3, 3) has 15–85 %
	rec := doubt("proof")                                                                                                        // what a check did not find changes no odds: they are the ledger's history
	rec.Reads = []ledger.Read{{BeganAt: noon.Add(time.Hour), Verdict: ledger.CannotTell, Cause: ledger.CauseNone}}
	need.Equal(t, k.Odds(rec), o)
}

func TestOddsFallBackToTheClassAndThenToTheGuess(t *testing.T) {
	count := func(kind string, class ledger.ErrorClass, landed, missed int) ledger.DoubtCount {
		return ledger.DoubtCount{Kind: kind, Class: class, Landed: landed, Missed: missed}
	}
	// A timeout begins at 0.50 with the weight of two cases.
	for _, c := range []struct {
		name   string
		counts []ledger.DoubtCount
		p      float64
		n      int
		why    string
	}{
		{"nothing known", nil, 0.5, 0, "a guess for timeout: no cases yet"},
		{"another class says nothing", []ledger.DoubtCount{count("proof", ledger.Class5xx, 40, 0), count("mail", ledger.Class5xx, 40, 0)}, 0.5, 0, "no cases yet"},
		{"own cases only", []ledger.DoubtCount{count("proof", ledger.ClassTimeout, 7, 1)}, 8.0 / 10, 8, "8 cases like it (timeout)"},
		{"a few of others", []ledger.DoubtCount{count("mail", ledger.ClassTimeout, 2, 0)}, 3.0 / 4, 2, "none of this kind yet, 2 of other kinds (timeout)"},
		// The mean of all of them; it weighs ten cases.
		{"many of others", []ledger.DoubtCount{count("mail", ledger.ClassTimeout, 600, 100), count("post", ledger.ClassTimeout, 301, 0)}, (1 + 901.0) / 1003, 8, "none of this kind yet, 1,001 of other kinds"},
		{"ten own against many", []ledger.DoubtCount{count("mail", ledger.ClassTimeout, 998, 0), count("proof", ledger.ClassTimeout, 0, 10)},
			10 * (999.0 / 1000) / 20, 18, "10 cases like it and 998 of other kinds (timeout)"},
		{"several counts of one kind", []ledger.DoubtCount{count("proof", ledger.ClassTimeout, 3, 0), count("proof", ledger.ClassTimeout, 3, 0)}, 7.0 / 8, 6, "6 cases"},
		{"nonsense is nothing", []ledger.DoubtCount{count("proof", ledger.ClassTimeout, -3, -1)}, 0.5, 0, "no cases yet"},
	} {
		k := must(t, priced).WithHistory(advice.History(c.counts)).Kind("proof")
		o := k.Odds(doubt("proof"))
		need.That(t, math.Abs(o.P-c.p) <= 1e-9 && o.N == c.n && strings.Contains(o.Why, c.why) && o.Low <= o.P && o.P <= o.High, "%s: %+v, want %v n%d %q", c.name, o, c.p, c.n, c.why)
		got := k.Price(doubt("proof")).Odds
		need.That(t, math.Abs(got-o.P) <= 1e-12, "%s: lists are ordered by %v", c.name, got)
	}
	// However many there are, the interval is that of ten cases.
	o := must(t, priced).WithHistory(advice.History([]ledger.DoubtCount{count("mail", ledger.ClassTimeout, 90000, 10000)})).Kind("proof").Odds(doubt("proof"))
	need.That(t, math.Abs(o.Low-0.533) <= 0.01 && math.Abs(o.High-0.985) <= 0.01 && o.Others == 100000, "%+v", o)
}

func TestCostThatErrsIsTheDearest(t *testing.T) {
	duplicate, miss := must(t, priced).Kind("odd").Costs(doubt("odd").Operation)
	want := ledger.Cost{Value: 1000, Word: "severe", Guess: true}
	need.That(t, duplicate == want && miss == want, "%v %v", duplicate, miss)
}

func TestPrice(t *testing.T) {
	p := must(t, priced)
	rec := doubt("proof")
	rec.Pricing = ledger.Pricing{ReadAt: noon, Reads: 3}
	got := p.Kind("proof").Price(rec)
	if got.Rank != 200 || got.Odds != 0.5 || !got.DecideAt.Equal(noon.Add(15*time.Minute)) || got.Reads != 3 || !got.ReadAt.Equal(noon) ||
		got.OperationID != "op" || got.Digest != p.Digest() {
		t.Errorf("%+v", got)
	}
	if got := p.Kind("legacy").Price(doubt("legacy")); !got.DecideAt.IsZero() || !got.ReadAt.Equal(ledger.Never) {
		t.Errorf("no read needs a person at once: %+v", got)
	}
	rec.Operation.PersonOnly = true
	if got := p.Kind("proof").Price(rec); !got.DecideAt.IsZero() {
		t.Errorf("only a person settles: %+v", got)
	}
	keyed := p.Kind("keyed").Price(doubt("keyed"))
	need.Equal(t, keyed.Downstream, "d", keyed)
}

// `attempt` is the newest one. A search from its start on does not see what an
// earlier one did.
func TestI6_SearchFromTheNewestAttemptProvesNothing(t *testing.T) {
	p := must(t, strings.Replace(priced, "https://h.example/x }, list: body",
		"https://h.example/x, query: { since: \"${attempt.started_at}\" } }, list: body", 1))
	twice := func(first ledger.Proof) ledger.Record {
		rec := doubt("proof")
		rec.Attempts[0].Proof = first
		second := rec.Attempts[0]
		second.ID, second.N, second.Proof, second.EndedAt = "a2", 2, "", noon.Add(time.Hour)
		rec.Attempts = append(rec.Attempts, second)
		return rec
	}
	for name, c := range map[string]struct {
		rec  ledger.Record
		want bool
	}{"one attempt": {doubt("proof"), true}, "the first in doubt": {twice(""), false}, "the first not there": {twice(ledger.ProofNotThere), true}} {
		at, ok := p.Kind("proof").ProofAt(c.rec)
		need.That(t, ok == c.want, "%s: %v %v", name, at, ok)
	}
	_, ok := must(t, priced).Kind("proof").ProofAt(twice(""))
	need.That(t, ok, "a search that says nothing of attempts")
}

// Overtaken by another that landed or may have, no read says what is to be done: the row
// stands with a person from the moment the advice says so, and no longer.
func TestOvertakenTheLaneIsTheAdvices(t *testing.T) {
	p, at := must(t, priced), noon.Add(time.Minute)
	for _, kind := range []string{"proof", "hope", "keyed", "legacy", "deploy"} {
		for _, overtook := range []bool{true, false} {
			for state, landed := range map[ledger.State][]bool{ledger.Pending: {true}, ledger.Uncertain: {true}, ledger.Committed: {true},
				ledger.Failed: {true, false}, ledger.Abandoned: {true, false}} {
				for _, may := range landed {
					rec := doubt(kind)
					rec.Now = at
					rec.Related = []ledger.Relation{{ID: "later", State: state, Overtook: overtook, MayHaveLanded: may}}
					rec.Pricing = p.Kind(kind).Price(rec)
					a, row := p.Kind(kind).Advise(rec, at), rec.Row()
					want := map[bool]ledger.Lane{true: ledger.LaneReading, false: ledger.LaneDecide}[a.Verb == advice.Wait]
					name := fmt.Sprintf("%s beside %s, overtaken %t, may have landed %t", kind, state, overtook, may)
					need.Equal(t, row.LaneAt(at), want, name, a.Verb, a.Reason)
					need.Equal(t, strings.Contains(a.Reason, "overtaken: "), overtook && may, name, a.Verb, a.Reason)
				}
			}
		}
	}
}
