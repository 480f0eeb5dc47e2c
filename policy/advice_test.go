package policy

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const priced = `
version: 1
defaults: { look: 5 }
downstreams:
  d: { base: https://d.example, key: { header: K, remembers: 24h } }
kinds:
  proof:
    cost: { duplicate: 800, miss: 400 }
    token: { into: t }
    lands_within: 2m
    visible_within: 30s
    read: { http: { get: https://h.example/x }, list: body, mark: it.t, complete: "true" }
    retry: { max: 1 }
  keyed:
    downstream: d
    cost: { duplicate: 800, miss: 400 }
    lands_within: 2m
    retry: { max: 3 }
  legacy: { cost: { duplicate: 24000, miss: 12000 } }
  post: { cost: { duplicate: high, miss: low } }
  mail: { cost: { duplicate: low, miss: high } }
  cheap: { cost: { duplicate: 1, miss: 1 } }
  deploy: { idempotent: true, target: "x", cost: { duplicate: high, miss: high } }
  hope:
    cost: { duplicate: 800, miss: 400 }
    read: { http: { get: https://h.example/x }, list: body, mark: it.t, mark_is: "${input.t}", unique: true }
  fleeting:
    visible_for: 10m
    read: { http: { get: https://h.example/x }, list: body, mark: it.t, mark_is: "${input.t}", unique: true }
  unpriced: { retry: { max: 1 } }
  odd: { cost: { duplicate: input.a / input.b, miss: input.nope } }
`

// doubt is an operation whose only attempt timed out at noon.
func doubt(kind string) ledger.Record {
	return ledger.Record{Found: true, Now: noon, Operation: ledger.Operation{
		ID: "op", Kind: kind, Token: "tok", TokenSent: true, Key: "k", State: ledger.Uncertain, ErrorClass: ledger.ClassTimeout, Doubted: true,
		StartedAt: noon.Add(-30 * time.Second), EndedAt: noon, DoubtedAt: noon, AttemptCount: 1, Input: []byte(`{"a":1,"b":0.0}`),
	}, Attempts: []ledger.Attempt{{ID: "a1", N: 1, KeyWorks: true, TokenSent: true, StartedAt: noon.Add(-30 * time.Second), EndedAt: noon, Outcome: ledger.OutcomeUncertain}}}
}

func proven1(rec ledger.Record) ledger.Record {
	rec.Operation.State, rec.Operation.Verdict = ledger.Failed, ledger.Absent
	rec.Attempts[0].Proof = ledger.ProvenAbsent
	return rec
}

func TestAdviceIsTheFirstThatApplies(t *testing.T) {
	p := must(t, priced)
	change := func(rec ledger.Record, f func(*ledger.Record)) ledger.Record { f(&rec); return rec }
	minutes := func(n float64) time.Time { return noon.Add(time.Duration(n * float64(time.Minute))) }
	forgotten := noon.Add(24*time.Hour - 30*time.Second - 2*time.Minute - 2*time.Minute - time.Second)
	tried := func(times int) func(*ledger.Record) {
		return func(r *ledger.Record) {
			for n := 2; n <= times+1; n++ {
				r.Attempts = append(r.Attempts, ledger.Attempt{N: n, Basis: ledger.BasisKeySafe, KeyWorks: true, EndedAt: noon, Outcome: ledger.OutcomeUncertain})
			}
			r.Operation.AttemptCount = times + 1
		}
	}
	for _, c := range []struct {
		name    string
		rec     ledger.Record
		at      time.Time
		verb    string
		basis   ledger.Basis
		reason  string
		changes time.Time
	}{
		{"conflict before all", change(proven1(doubt("proof")), func(r *ledger.Record) { r.Operation.Conflict = ledger.Duplicate }), noon, AdviseLook, "", "happened twice", time.Time{}},
		{"in flight", change(doubt("proof"), func(r *ledger.Record) {
			r.Operation.State, r.Operation.DeadlineAt, r.Operation.EndedAt = ledger.Pending, minutes(1), time.Time{}
			r.Attempts[0].EndedAt, r.Attempts[0].DeadlineAt, r.Attempts[0].Outcome = time.Time{}, minutes(1), ""
		}), noon, AdviseWait, "", "in flight", minutes(1).Add(time.Millisecond)},
		{"in flight without a check", change(doubt("legacy"), func(r *ledger.Record) {
			r.Operation.State, r.Operation.DeadlineAt = ledger.Pending, minutes(1)
		}), noon, AdviseWait, "", "in flight", minutes(1).Add(time.Millisecond)},
		{"landed", change(doubt("proof"), func(r *ledger.Record) { r.Operation.Verdict = ledger.Landed }), noon, AdviseConfirm, "", "found it", time.Time{}},
		{"did not land", proven1(doubt("proof")), noon, AdviseRetry, ledger.BasisAbsent, "did not land", time.Time{}},
		{"did not land, none left, dear", change(proven1(doubt("legacy")), func(r *ledger.Record) {}), noon, AdviseRaise, "", "all attempts", time.Time{}},
		{"did not land, none left, cheap", proven1(doubt("cheap")), noon, AdviseAbandon, "", "costs little", time.Time{}},
		{"did not land, somebody says", change(doubt("proof"), func(r *ledger.Record) {
			r.Operation.State, r.Operation.Actor = ledger.Failed, "ana"
		}), noon, AdviseRetry, ledger.BasisRiskAccepted, "ana says", time.Time{}},
		{"refused at once", change(doubt("proof"), func(r *ledger.Record) {
			r.Operation.State, r.Operation.Doubted = ledger.Failed, false
			r.Attempts[0].Outcome, r.Attempts[0].Proof = ledger.OutcomeFailed, ledger.Refused
		}), noon, AdviseLeave, "", "refused", time.Time{}},
		{"did not land, but a twin", change(proven1(doubt("proof")), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{ID: "y", State: ledger.Failed}, {ID: "x", Title: "charge again", State: ledger.Committed, MayHaveLanded: true}}
		}), noon, AdviseLook, "", "another operation with the same input is committed (charge again)", time.Time{}},
		{"did not land, nor did its twin", change(proven1(doubt("proof")), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{ID: "x", Title: "charge again", State: ledger.Failed}, {ID: "y", State: ledger.Failed, Overtook: true}}
		}), noon, AdviseRetry, ledger.BasisAbsent, "did not land", time.Time{}},
		{"proof to come, but a twin", change(doubt("proof"), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{ID: "x", Title: "charge again", State: ledger.Uncertain, MayHaveLanded: true}}
		}), minutes(1), AdviseLook, "", "another operation with the same input is uncertain", time.Time{}},
		{"key, but a twin", change(doubt("keyed"), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{ID: "x", Title: "charge again", State: ledger.Pending, MayHaveLanded: true}}
		}), minutes(1), AdviseLook, "", "another operation with the same input", time.Time{}},
		{"proof to come", doubt("proof"), minutes(1), AdviseWait, "", "from 12:02:31", noon.Add(2*time.Minute + 31*time.Second)},
		{"proof due", doubt("proof"), minutes(3), AdviseWait, "", "on its way", minutes(15)},
		{"out of sight before it escalates", doubt("fleeting"), minutes(1), AdviseWait, "", "", minutes(9).Add(30*time.Second - time.Second)},
		{"parked", change(doubt("legacy"), func(r *ledger.Record) { r.Operation.ParkedUntil = minutes(30) }), noon, AdviseLook, "", "", minutes(30)},
		{"only hope", doubt("hope"), minutes(1), AdviseWait, "", "one may still find it", minutes(15)},
		{"no hope any more", doubt("hope"), minutes(16), AdviseLook, "", "no case", time.Time{}},
		{"key", doubt("keyed"), minutes(1), AdviseRetry, ledger.BasisKeySafe, "cannot act twice", forgotten},
		{"key forgotten", doubt("keyed"), minutes(60 * 24), AdviseLook, "", "", time.Time{}},
		{"key tried once", change(doubt("keyed"), tried(1)), noon, AdviseRetry, ledger.BasisKeySafe, "cannot act twice", forgotten},
		{"key tried as often as it may", change(doubt("keyed"), tried(3)), noon, AdviseLook, "", "no case", time.Time{}},
		{"key tried, and forgotten", change(doubt("keyed"), tried(1)), forgotten, AdviseLook, "", "no case", time.Time{}},
		{"first went out without the key", change(doubt("keyed"), func(r *ledger.Record) { r.Attempts[0].KeyWorks = false }), noon, AdviseLook, "", "", time.Time{}},
		{"idempotent", doubt("deploy"), noon, AdviseRetry, ledger.BasisKeySafe, "safe to repeat", time.Time{}},
		{"overtaken", change(doubt("deploy"), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{Overtook: true, Title: "deploy web 4.18.3", State: ledger.Committed, MayHaveLanded: true}}
		}), noon, AdviseLook, "", "overtaken: a later operation on the same target is committed (deploy web 4.18.3)", time.Time{}},
		{"granted", change(doubt("legacy"), func(r *ledger.Record) { r.Grants = []ledger.Grant{{ExpiresAt: minutes(10)}} }), noon, AdviseWait, "", "waits for its pipeline", minutes(10)},
		{"committed", change(doubt("legacy"), func(r *ledger.Record) { r.Operation.State = ledger.Committed }), noon, AdviseLeave, "", "it landed", time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := p.Kind(c.rec.Operation.Kind).Advise(c.rec, c.at)
			if a.Verb != c.verb || a.Basis != c.basis || !strings.Contains(a.Reason, c.reason) || !a.ChangesAt.Equal(c.changes) {
				t.Errorf("got %s %q (%s) changes %v; want %s %q (%s) changes %v", a.Verb, a.Basis, a.Reason, a.ChangesAt, c.verb, c.basis, c.reason, c.changes)
			}
		})
	}
}

// Without a case, or without a price of the team's own, there is nothing to
// reckon with: a person looks.
func TestAdviceByCosts(t *testing.T) {
	without := must(t, priced)
	with := without.WithHistory(History([]ledger.DoubtCount{{Kind: "another", Class: ledger.ClassTimeout, Landed: 2, Missed: 2}}))
	beside := func(rec ledger.Record) ledger.Record {
		rec.Related = []ledger.Relation{{ID: "x", Title: "again", State: ledger.Committed, MayHaveLanded: true}}
		return rec
	}
	for _, c := range []struct {
		name   string
		p      *Policy
		rec    ledger.Record
		verb   string
		basis  ledger.Basis
		reason string
	}{
		{"dear both ways", with, doubt("legacy"), AdviseLook, "", "looking costs 5"},
		{"a duplicate is dearer", with, doubt("post"), AdviseLeave, "", ""},
		{"a miss is dearer", with, doubt("mail"), AdviseRetry, ledger.BasisRiskAccepted, "goes past what the policy allows"},
		{"a miss is dearer, but a twin", with, beside(doubt("mail")), AdviseLook, "", "the same input"},
		{"a duplicate is dearer, but the same input landed", with, beside(doubt("post")), AdviseLook, "", "the same input"},
		{"even", with, doubt("cheap"), AdviseLeave, "", ""},
		{"a duplicate is dearer, no case", without, doubt("post"), AdviseLook, "", "no case"},
		{"a miss is dearer, no case", without, doubt("mail"), AdviseLook, "", "no case"},
		{"even, no case", without, doubt("cheap"), AdviseLook, "", "no case"},
		{"no price", with, doubt("unpriced"), AdviseLook, "", "no price"},
		{"a price that errs", with, doubt("odd"), AdviseLook, "", "no price"},
		{"neither", without, doubt("unpriced"), AdviseLook, "", "no case"},
		{"unknown kind", without, doubt("nobody.knows"), AdviseLook, "", "no case"},
	} {
		if a := c.p.Kind(c.rec.Operation.Kind).Advise(c.rec, noon); a.Verb != c.verb || a.Basis != c.basis || !strings.Contains(a.Reason, c.reason) {
			t.Errorf("%s: %s %q (%s); want %s %q (%s)", c.name, a.Verb, a.Basis, a.Reason, c.verb, c.basis, c.reason)
		}
	}
}

// A basis is a claim about all that may have landed, not of this operation alone.
func TestI5_BesideOneThatMayHaveLandedOnlyARiskIsLeft(t *testing.T) {
	p := must(t, priced)
	for name, rec := range map[string]ledger.Record{"proven absent": proven1(doubt("proof")), "key": doubt("keyed"), "idempotent": doubt("deploy")} {
		k := p.Kind(rec.Operation.Kind)
		if basis, _, _ := k.AllowedBasis(rec, noon); basis == ledger.BasisRiskAccepted {
			t.Errorf("%s: a risk without another one", name)
		}
		for _, overtook := range []bool{true, false} {
			rec.Related = []ledger.Relation{{ID: "x", Title: "again", State: ledger.Abandoned, Overtook: overtook, MayHaveLanded: true}}
			if basis, why, _ := k.AllowedBasis(rec, noon); basis != ledger.BasisRiskAccepted || !strings.Contains(why, "again") {
				t.Errorf("%s, overtaken %t: %s (%s)", name, overtook, basis, why)
			}
		}
	}
}

// What sending and leaving cost is reckoned with the chance as it is printed.
func TestCostsAreReckonedWithThePrintedChance(t *testing.T) {
	for p, want := range map[float64]string{0: "0.00", 1: "1.00", 0.5: "0.50", 0.67766: "0.68", 0.0042: "0.0042", 0.99581: "0.9958", 0.05: "0.05", 0.0549: "0.055", 0.1: "0.10"} {
		if got := Share(p); got != want {
			t.Errorf("%v is printed as %s, want %s", p, got, want)
		}
	}
	k := must(t, priced).WithHistory(History([]ledger.DoubtCount{{Kind: "legacy", Class: ledger.ClassTimeout, Landed: 20, Missed: 9}})).Kind("legacy")
	a := k.Advise(doubt("legacy"), noon)
	if a.Odds.P == Rounded(a.Odds.P) || a.RetryCost != Rounded(a.Odds.P)*24_000 || math.Abs(a.LeaveCost-(1-Rounded(a.Odds.P))*12_000) > 1e-6 {
		t.Errorf("chance %v: retry %v, leave %v", a.Odds.P, a.RetryCost, a.LeaveCost)
	}
	if price := k.Price(doubt("legacy")); math.Abs(price.Rank-a.LeaveCost) > 1e-6 {
		t.Errorf("the list prices a miss with %v, the advice with %v", price.Rank, a.LeaveCost)
	}
}

func TestMoney(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 5: "5", 420.5: "420.50", 1234567.891: "1,234,567.89", 1000: "1,000", 999.999: "1,000"} {
		if got := expr.Money(v); got != want {
			t.Errorf("%v: %s", v, got)
		}
	}
}

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
	for name, change := range map[string]func(*Kind, *ledger.Record){
		"no read":                 func(k *Kind, _ *ledger.Record) { k.Read = nil },
		"lands_within not stated": func(k *Kind, _ *ledger.Record) { k.LandsWithin = nil },
		"visible_within missing":  func(k *Kind, _ *ledger.Record) { k.VisibleWithin = nil },
		"out of sight by then":    func(k *Kind, _ *ledger.Record) { d := 2 * time.Minute; k.VisibleFor = &d },
		"a person settles":        func(_ *Kind, r *ledger.Record) { r.Operation.HandsOff = true },
		"token never sent":        func(_ *Kind, r *ledger.Record) { r.Operation.TokenSent, r.Attempts[0].TokenSent = false, false },
		"one went without it":     func(_ *Kind, r *ledger.Record) { r.Attempts = append(r.Attempts, ledger.Attempt{N: 2, EndedAt: noon}) },
		"a process may write":     func(_ *Kind, r *ledger.Record) { r.Attempts[0].Tree = ledger.TreeOpen },
		"looks for content":       func(k *Kind, _ *ledger.Record) { k.Read = p.Kind("hope").Read },
	} {
		k, rec := p.Kind("proof"), doubt("proof")
		change(k, &rec)
		if at, ok := k.ProofAt(rec); ok {
			t.Errorf("%s: provable at %v", name, at)
		}
	}
}

func TestOddsByHistoryAndReads(t *testing.T) {
	p := must(t, priced)
	k := p.Kind("proof")
	o := k.Odds(doubt("proof"))
	if o.P != 0.5 || o.N != 0 || !strings.Contains(o.Why, "a guess") || math.Abs(o.Low-0.025) > 1e-6 || math.Abs(o.High-0.975) > 1e-6 {
		t.Errorf("%+v", o)
	}
	k = p.WithHistory(History([]ledger.DoubtCount{{Kind: "proof", Class: ledger.ClassTimeout, Landed: 2, Missed: 2}})).Kind("proof")
	if o = k.Odds(doubt("proof")); o.N != 4 || math.Abs(o.P-0.5) > 1e-9 || math.Round(o.Low*100) != 15 || math.Round(o.High*100) != 85 {
		t.Errorf("%+v", o) // Beta(3, 3): the 15–85 % of the screen
	}
	read := func(after time.Duration, verdict ledger.Verdict, cause ledger.Cause) ledger.Read {
		return ledger.Read{BeganAt: noon.Add(2*time.Minute + after), Verdict: verdict, Cause: cause}
	}
	for name, c := range map[string]struct {
		reads []ledger.Read
		want  float64
	}{
		"too early":         {[]ledger.Read{read(-time.Second, ledger.Inconclusive, ledger.CauseNone)}, 0.5},
		"half way":          {[]ledger.Read{read(15*time.Second, ledger.Inconclusive, ledger.CauseNone)}, 0.5 * 0.1 / (0.5*0.1 + 0.5)},
		"all the way":       {[]ledger.Read{read(30*time.Second, ledger.Inconclusive, ledger.CauseNone)}, 0.5 * 0.01 / (0.5*0.01 + 0.5)},
		"once, by the best": {[]ledger.Read{read(15*time.Second, ledger.Inconclusive, ledger.CauseNone), read(15*time.Second, ledger.Inconclusive, ledger.CauseNone)}, 0.5 * 0.1 / (0.5*0.1 + 0.5)},
		"could not look":    {[]ledger.Read{read(time.Hour, ledger.Inconclusive, ledger.CauseNoAnswer)}, 0.5},
		"blind":             {[]ledger.Read{read(time.Hour, ledger.Inconclusive, ledger.CauseBlind), read(time.Minute, ledger.Inconclusive, ledger.CauseNone)}, 0.5},
		"blind before":      {[]ledger.Read{read(30*time.Second, ledger.Inconclusive, ledger.CauseNone), read(time.Second, ledger.Inconclusive, ledger.CauseBlind)}, 0.5 * 0.01 / (0.5*0.01 + 0.5)},
		"a control":         {[]ledger.Read{{Control: true, BeganAt: noon.Add(time.Hour), Verdict: ledger.Inconclusive, Cause: ledger.CauseNone}}, 0.5},
	} {
		rec := doubt("proof")
		rec.Reads = c.reads
		if got := p.Kind("proof").Odds(rec).P; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
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
		{"many of others", []ledger.DoubtCount{count("mail", ledger.ClassTimeout, 600, 100), count("post", ledger.ClassTimeout, 301, 0)}, (1 + 901.0) / 1003, 8, "none of this kind yet, 1001 of other kinds"},
		{"ten own against many", []ledger.DoubtCount{count("mail", ledger.ClassTimeout, 998, 0), count("proof", ledger.ClassTimeout, 0, 10)},
			10 * (999.0 / 1000) / 20, 18, "10 cases like it and 998 of other kinds (timeout)"},
		{"several counts of one kind", []ledger.DoubtCount{count("proof", ledger.ClassTimeout, 3, 0), count("proof", ledger.ClassTimeout, 3, 0)}, 7.0 / 8, 6, "6 cases"},
		{"nonsense is nothing", []ledger.DoubtCount{count("proof", ledger.ClassTimeout, -3, -1)}, 0.5, 0, "no cases yet"},
	} {
		k := must(t, priced).WithHistory(History(c.counts)).Kind("proof")
		o := k.Odds(doubt("proof"))
		if math.Abs(o.P-c.p) > 1e-9 || o.N != c.n || !strings.Contains(o.Why, c.why) || o.Low > o.P || o.P > o.High {
			t.Errorf("%s: %+v, want %v n%d %q", c.name, o, c.p, c.n, c.why)
		}
		if got := k.Price(doubt("proof")).Odds; math.Abs(got-o.P) > 1e-12 {
			t.Errorf("%s: lists are ordered by %v", c.name, got)
		}
	}
	// However many there are, the interval is that of ten cases.
	o := must(t, priced).WithHistory(History([]ledger.DoubtCount{count("mail", ledger.ClassTimeout, 90000, 10000)})).Kind("proof").Odds(doubt("proof"))
	if math.Abs(o.Low-0.66) > 0.01 || math.Abs(o.High-0.997) > 0.01 || o.Others != 100000 {
		t.Errorf("%+v", o)
	}
}

func TestCostThatErrsIsTheDearest(t *testing.T) {
	duplicate, miss := must(t, priced).Kind("odd").Costs(doubt("odd").Operation)
	want := ledger.Cost{Value: 1000, Word: "severe", Guess: true}
	if duplicate != want || miss != want {
		t.Error(duplicate, miss)
	}
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
	rec.Operation.HandsOff = true
	if got := p.Kind("proof").Price(rec); !got.DecideAt.IsZero() {
		t.Errorf("only a person settles: %+v", got)
	}
	keyed := p.Kind("keyed").Price(doubt("keyed"))
	if keyed.Downstream != "d" {
		t.Errorf("%+v", keyed)
	}
}

// anyRecord draws records of every shape, also ones no ledger would hold.
func anyRecord(t *rapid.T, kind string) (ledger.Record, time.Time) {
	when := func(name string) time.Time {
		if rapid.IntRange(0, 5).Draw(t, name+" known") == 0 {
			return time.Time{}
		}
		return noon.Add(time.Duration(rapid.IntRange(-100000, 100000).Draw(t, name)) * time.Second)
	}
	rec := ledger.Record{Operation: ledger.Operation{
		Kind: kind, Token: "t", TokenSent: rapid.Bool().Draw(t, "token sent"), HandsOff: rapid.Bool().Draw(t, "hands off"),
		State:      rapid.SampledFrom([]ledger.State{ledger.Pending, ledger.Committed, ledger.Failed, ledger.Uncertain, ledger.Abandoned}).Draw(t, "state"),
		ErrorClass: rapid.SampledFrom([]ledger.ErrorClass{"", "timeout", "5xx", "throttled", "odd"}).Draw(t, "class"),
		Verdict:    rapid.SampledFrom([]ledger.Verdict{"", ledger.Landed, ledger.Absent, ledger.Mismatch, ledger.Duplicated}).Draw(t, "verdict"),
		Conflict:   rapid.SampledFrom([]ledger.Conflict{"", ledger.Duplicate, ledger.Contradiction}).Draw(t, "conflict"),
		Doubted:    rapid.Bool().Draw(t, "doubted"), ParkedUntil: when("parked"), DoubtedAt: when("doubted at"), EndedAt: when("ended"), StartedAt: when("started"), DeadlineAt: when("deadline"),
		Input: []byte(`{"a":1,"b":0}`),
	}}
	for i := range rapid.IntRange(0, 3).Draw(t, "attempts") {
		rec.Attempts = append(rec.Attempts, ledger.Attempt{N: i + 1, StartedAt: when("a start"), EndedAt: when("a end"), DeadlineAt: when("a deadline"),
			KeyWorks: rapid.Bool().Draw(t, "key works"),
			Outcome:  rapid.SampledFrom([]ledger.Outcome{"", ledger.OutcomeFailed, ledger.OutcomeUncertain, ledger.OutcomeCommitted}).Draw(t, "outcome"),
			Proof:    rapid.SampledFrom([]ledger.Proof{"", ledger.NeverSent, ledger.Refused, ledger.ProvenAbsent}).Draw(t, "proof")})
	}
	rec.Operation.AttemptCount = len(rec.Attempts)
	for range rapid.IntRange(0, 2).Draw(t, "reads") {
		rec.Reads = append(rec.Reads, ledger.Read{BeganAt: when("read"), Verdict: rapid.SampledFrom([]ledger.Verdict{ledger.Inconclusive, ledger.Absent}).Draw(t, "read verdict"), Cause: ledger.CauseNone})
	}
	for range rapid.IntRange(0, 1).Draw(t, "grants") {
		rec.Grants = append(rec.Grants, ledger.Grant{ExpiresAt: when("expires")})
	}
	for range rapid.IntRange(0, 1).Draw(t, "related") {
		rec.Related = append(rec.Related, ledger.Relation{Overtook: rapid.Bool().Draw(t, "overtook"), MayHaveLanded: rapid.Bool().Draw(t, "may have landed")})
	}
	return rec, noon.Add(time.Duration(rapid.IntRange(-200000, 200000).Draw(t, "now")) * time.Second)
}

func TestI5_AdviceNeverClaimsABasisItHasNot(t *testing.T) {
	p := must(t, priced)
	rapid.Check(t, func(t *rapid.T) {
		k := p.Kind(rapid.SampledFrom(append(p.Kinds(), "unknown")).Draw(t, "kind"))
		rec, now := anyRecord(t, k.Name)
		a := k.Advise(rec, now)
		for name, v := range map[string]float64{"p": a.Odds.P, "low": a.Odds.Low, "high": a.Odds.High} {
			if math.IsNaN(v) || v < 0 || v > 1 {
				t.Fatalf("%s = %v", name, v)
			}
		}
		if a.Odds.Low > a.Odds.P+1e-9 || a.Odds.P > a.Odds.High+1e-9 {
			t.Fatalf("odds outside their interval: %+v", a.Odds)
		}
		for name, v := range map[string]float64{"retry": a.RetryCost, "leave": a.LeaveCost, "look": a.LookCost, "rank": k.Price(rec).Rank} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				t.Fatalf("%s costs %v", name, v)
			}
		}
		if a.Reason == "" || strings.Contains(a.Reason, "\n") {
			t.Fatalf("reason %q", a.Reason)
		}
		if (a.Basis != "") != (a.Verb == AdviseRetry) {
			t.Fatalf("%s with basis %q", a.Verb, a.Basis)
		}
		switch a.Basis {
		case ledger.BasisAbsent:
			if rec.Operation.State != ledger.Failed || !allProven(rec.Attempts) || rec.Operation.HandsOff {
				t.Fatal("absent without proof")
			}
		case ledger.BasisKeySafe:
			if !now.Before(k.KeySafeUntil(rec)) {
				t.Fatal("key safe, but the key is forgotten")
			}
		}
		if a.Basis == ledger.BasisAbsent || a.Basis == ledger.BasisKeySafe {
			if len(rec.Landings()) > 0 || rec.Operation.Conflict != "" {
				t.Fatal("a twin or a conflict must stop it")
			}
		}
		if basis, why, _ := k.AllowedBasis(rec, now); why == "" || basis == "" {
			t.Fatal("no basis at all")
		}
	})
}

// anyClocks draws what a policy may say of times, costs and limits.
func anyClocks(t *rapid.T, k *Kind) {
	span := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 40000).Draw(t, name)) * time.Second
	}
	bound := func(name string) *time.Duration {
		d := span(name)
		return &d
	}
	if rapid.Bool().Draw(t, "as written") {
		return
	}
	k.EscalateAfter, k.Deadline, k.Remembers, k.Skew = span("escalates"), span("deadline"), span("remembers"), span("skew")
	k.LandsWithin, k.VisibleWithin, k.VisibleFor = bound("lands"), bound("visible"), bound("visible for")
	k.Retry.Max, k.Idempotent = rapid.IntRange(0, 3).Draw(t, "max"), rapid.Bool().Draw(t, "idempotent")
	k.Look = float64(rapid.IntRange(0, 500).Draw(t, "look"))
}

// What the console and the engine rely on: they look again at ChangesAt, and not
// before.
func TestAdviceIsTheSameUntilItChanges(t *testing.T) {
	p := must(t, priced)
	rapid.Check(t, func(t *rapid.T) {
		k := p.Kind(rapid.SampledFrom(append(p.Kinds(), "unknown")).Draw(t, "kind"))
		anyClocks(t, k)
		rec, now := anyRecord(t, k.Name)
		a := k.Advise(rec, now)
		last := now.Add(1000 * time.Hour)
		if !a.ChangesAt.IsZero() {
			if !a.ChangesAt.After(now) {
				t.Fatal("changes in the past")
			}
			last = a.ChangesAt.Add(-time.Millisecond)
			b := k.Advise(rec, a.ChangesAt)
			b.ChangesAt = a.ChangesAt
			if diff := cmp.Diff(a, b); diff == "" {
				t.Fatalf("does not change at %v: %+v", a.ChangesAt, a)
			}
		}
		for _, at := range []time.Time{last, now.Add(time.Duration(rapid.Int64Range(0, last.Sub(now).Milliseconds()).Draw(t, "within")) * time.Millisecond)} {
			if diff := cmp.Diff(a, k.Advise(rec, at)); diff != "" {
				t.Fatalf("changes between %v and %v, at %v (-then +now):\n%s", now, a.ChangesAt, at, diff)
			}
		}
	})
}

func TestLookNamesOnlyWhatWasSent(t *testing.T) {
	p := must(t, `
version: 1
downstreams: { d: { base: https://d.example, key: { header: K } } }
kinds:
  plain: { title: "charge ${input.c}", cost: { duplicate: 100, miss: 100 }, link: "https://h.example/${receipt}" }
  keyed: { downstream: d, title: "charge ${input.c}", cost: { duplicate: 100, miss: 100 }, lands_within: 2m, link: "https://h.example/x?q=${token}&c=${input.c}" }
`)
	for _, c := range []struct {
		name, kind string
		change     func(*ledger.Record)
		search     string
		link       string
	}{
		{"token sent", "plain", func(r *ledger.Record) {}, "tok, charge cus_9", ""},
		{"token not known to have been sent", "plain", func(r *ledger.Record) { r.Operation.TokenSent, r.Attempts[0].TokenSent = false, false }, "charge cus_9", ""},
		{"one of two attempts went without it", "plain", func(r *ledger.Record) { r.Attempts = append(r.Attempts, ledger.Attempt{N: 2}) }, "charge cus_9", ""},
		{"a receipt", "plain", func(r *ledger.Record) { r.Operation.Receipts = []string{"ch_1"} }, "ch_1, tok, charge cus_9", "https://h.example/ch_1"},
		{"a key", "keyed", func(r *ledger.Record) {}, "tok, k, charge cus_9", "https://h.example/x?q=tok&c=cus_9"},
		{"a key that was not sent", "keyed", func(r *ledger.Record) { r.Attempts[0].KeyWorks = false }, "tok, charge cus_9", "https://h.example/x?q=tok&c=cus_9"},
		{"no link by a token that was not sent", "keyed", func(r *ledger.Record) { r.Operation.TokenSent, r.Attempts[0].TokenSent = false, false }, "k, charge cus_9", ""},
	} {
		rec := doubt(c.kind)
		rec.Operation.Input = []byte(`{"c":"cus_9"}`)
		c.change(&rec)
		k := p.Kind(c.kind)
		k.Remembers = 0
		a := k.Advise(rec, noon)
		if a.Verb != AdviseLook || strings.Join(a.Where.Search, ", ") != c.search || a.Where.Link != c.link || k.Link(rec.Operation) != c.link {
			t.Errorf("%s: %s %+v", c.name, a.Verb, a.Where)
		}
		if to := a.Where.To; !a.Where.From.Equal(noon.Add(-30*time.Second)) || c.kind == "plain" && !to.IsZero() || c.kind == "keyed" && !to.Equal(noon.Add(2*time.Minute+time.Second)) {
			t.Errorf("%s: from %v to %v", c.name, a.Where.From, to)
		}
	}
}

func TestOddsFallWithTime(t *testing.T) {
	k := must(t, priced).Kind("proof")
	rapid.Check(t, func(t *rapid.T) {
		rec := doubt("proof")
		first := rapid.IntRange(-1000, 1000).Draw(t, "first")
		rec.Reads = []ledger.Read{{BeganAt: noon.Add(time.Duration(first) * time.Second), Verdict: ledger.Inconclusive, Cause: ledger.CauseNone}}
		early := k.Odds(rec)
		rec.Reads[0].BeganAt = rec.Reads[0].BeganAt.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "later")) * time.Second)
		late := k.Odds(rec)
		if late.P > early.P || late.High > early.High || late.Low > early.Low {
			t.Fatalf("%+v then %+v", early, late)
		}
	})
}

func TestBetaQuantile(t *testing.T) {
	for _, c := range []struct{ q, a, b, want float64 }{
		{0.025, 1, 1, 0.025}, {0.5, 3, 3, 0.5}, {0.025, 3, 3, 0.14663}, {0.975, 3, 3, 0.85337}, {0.5, 1, 9, 0.07413}, {0.975, 32, 6, 0.93822},
	} {
		if got := betaQuantile(c.q, c.a, c.b); math.Abs(got-c.want) > 2e-3 {
			t.Errorf("%+v: %v", c, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(0.05, 5000).Draw(t, "a"), rapid.Float64Range(0.05, 5000).Draw(t, "b")
		low, high := betaQuantile(0.025, a, b), betaQuantile(0.975, a, b)
		if mean := a / (a + b); !(low <= high) || a > 1 && b > 1 && !(low <= mean && mean <= high) {
			t.Fatalf("Beta(%v, %v): %v %v", a, b, low, high)
		}
	})
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
	}{"one attempt": {doubt("proof"), true}, "the first in doubt": {twice(""), false}, "the first proven absent": {twice(ledger.ProvenAbsent), true}} {
		if at, ok := p.Kind("proof").ProofAt(c.rec); ok != c.want {
			t.Errorf("%s: %v %v", name, at, ok)
		}
	}
	if _, ok := must(t, priced).Kind("proof").ProofAt(twice("")); !ok {
		t.Error("a search that says nothing of attempts")
	}
}
