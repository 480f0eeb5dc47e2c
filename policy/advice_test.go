package policy

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/advice"
	"indoubt/policy/expr"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const priced = `
version: 1
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
  deploy: { effect: safe, target: "x", cost: { duplicate: high, miss: high } }
  hope:
    cost: { duplicate: 800, miss: 400 }
    read: { http: { get: https://h.example/x }, list: body, name: { it.t: "${input.t}" }, unique: true }
  fleeting:
    visible_for: 10m
    read: { http: { get: https://h.example/x }, list: body, name: { it.t: "${input.t}" }, unique: true }
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
	rec.Operation.State, rec.Operation.Verdict = ledger.Failed, ledger.NotThere
	rec.Attempts[0].Proof = ledger.ProofNotThere
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
	settled := time.Date(2026, 11, 22, 2, 58, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		rec     ledger.Record
		at      time.Time
		verb    string
		basis   ledger.Basis
		reason  string
		changes time.Time
	}{
		{"conflict before all", change(proven1(doubt("proof")), func(r *ledger.Record) { r.Operation.Conflict = ledger.ConflictTwice }), noon, advice.Look, "", "happened twice", time.Time{}},
		{"in flight", change(doubt("proof"), func(r *ledger.Record) {
			r.Operation.State, r.Operation.DeadlineAt, r.Operation.EndedAt = ledger.Pending, minutes(1), time.Time{}
			r.Attempts[0].EndedAt, r.Attempts[0].DeadlineAt, r.Attempts[0].Outcome = time.Time{}, minutes(1), ""
		}), noon, advice.Wait, "", "in flight", minutes(1).Add(time.Millisecond)},
		{"in flight without a check", change(doubt("legacy"), func(r *ledger.Record) {
			r.Operation.State, r.Operation.DeadlineAt = ledger.Pending, minutes(1)
		}), noon, advice.Wait, "", "in flight", minutes(1).Add(time.Millisecond)},
		{"landed", change(doubt("proof"), func(r *ledger.Record) { r.Operation.Verdict = ledger.Landed }), noon, advice.Confirm, "", "found it", time.Time{}},
		{"did not land", proven1(doubt("proof")), noon, advice.Retry, ledger.BasisProof, "did not land", time.Time{}},
		{"did not land, no repeat of machines", proven1(doubt("legacy")), noon, advice.Retry, ledger.BasisProof, "", time.Time{}},
		{"did not land, a person says", change(doubt("proof"), func(r *ledger.Record) {
			r.Operation.State, r.Operation.Actor = ledger.Failed, "ana"
		}), noon, advice.Retry, ledger.BasisRiskAccepted, "ana says", time.Time{}},
		{"refused at once", change(doubt("proof"), func(r *ledger.Record) {
			r.Operation.State, r.Operation.Doubted = ledger.Failed, false
			r.Attempts[0].Outcome, r.Attempts[0].Proof = ledger.OutcomeFailed, ledger.Refused
		}), noon, advice.Leave, "", "refused", time.Time{}},
		{"did not land, but overtaken", change(proven1(doubt("proof")), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{ID: "y", State: ledger.Failed, Overtook: true},
				{ID: "x", Title: "charge again", State: ledger.Committed, SettledAt: settled, MayHaveLanded: true, Overtook: true}}
		}), noon, advice.Abandon, "", "overtaken: a later operation on the same target landed (charge again, " + settled.Local().Format("2 Jan 15:04 MST") + ")", time.Time{}},
		{"did not land, nor did the later one", change(proven1(doubt("proof")), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{ID: "y", State: ledger.Failed, Overtook: true}}
		}), noon, advice.Retry, ledger.BasisProof, "did not land", time.Time{}},
		{"did not land, and came after one that did", change(proven1(doubt("proof")), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{ID: "x", Title: "charge before", State: ledger.Committed, MayHaveLanded: true}}
		}), noon, advice.Retry, ledger.BasisProof, "did not land", time.Time{}},
		{"proof to come, but overtaken", change(doubt("proof"), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{ID: "x", Title: "charge again", State: ledger.Uncertain, MayHaveLanded: true, Overtook: true}}
		}), minutes(1), advice.Abandon, "", "overtaken: a later operation on the same target may have landed (charge again", time.Time{}},
		{"key, but overtaken", change(doubt("keyed"), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{ID: "x", Title: "charge again", State: ledger.Pending, MayHaveLanded: true, Overtook: true}}
		}), minutes(1), advice.Abandon, "", "do it twice", time.Time{}},
		{"proof to come", doubt("proof"), minutes(1), advice.Wait, "", "from 12:02:31", noon.Add(2*time.Minute + 31*time.Second)},
		{"proof due", doubt("proof"), minutes(3), advice.Wait, "", "on its way", minutes(15)},
		{"out of sight before it escalates", doubt("fleeting"), minutes(1), advice.Wait, "", "", minutes(9).Add(30*time.Second - time.Second)},
		{"parked", change(doubt("legacy"), func(r *ledger.Record) { r.Operation.ParkedUntil = minutes(30) }), noon, advice.Look, "", "", minutes(30)},
		{"only hope", doubt("hope"), minutes(1), advice.Wait, "", "one may still find it", minutes(15)},
		{"no hope any more", doubt("hope"), minutes(16), advice.Look, "", "no case", time.Time{}},
		{"key", doubt("keyed"), minutes(1), advice.Retry, ledger.BasisKeySafe, "cannot act twice", forgotten},
		{"key forgotten", doubt("keyed"), minutes(60 * 24), advice.Look, "", "", time.Time{}},
		{"key tried once", change(doubt("keyed"), tried(1)), noon, advice.Retry, ledger.BasisKeySafe, "cannot act twice", forgotten},
		{"key tried as often as machines may", change(doubt("keyed"), tried(3)), noon, advice.Retry, ledger.BasisKeySafe, "cannot act twice", forgotten},
		{"key tried, and forgotten", change(doubt("keyed"), tried(1)), forgotten, advice.Look, "", "no case", time.Time{}},
		{"first went out without the key", change(doubt("keyed"), func(r *ledger.Record) { r.Attempts[0].KeyWorks = false }), noon, advice.Look, "", "", time.Time{}},
		{"idempotent", doubt("deploy"), noon, advice.Retry, ledger.BasisKeySafe, "safe to repeat", time.Time{}},
		{"overtaken", change(doubt("deploy"), func(r *ledger.Record) {
			r.Related = []ledger.Relation{{Overtook: true, Title: "deploy web 4.18.3", State: ledger.Committed, MayHaveLanded: true}}
		}), noon, advice.Abandon, "", "overtaken: a later operation on the same target landed (deploy web 4.18.3, ", time.Time{}},
		{"allowed", change(doubt("legacy"), func(r *ledger.Record) { r.Allowed = []ledger.Allowed{{ExpiresAt: minutes(10)}} }), noon, advice.Wait, "", "waits for its pipeline", minutes(10)},
		{"committed", change(doubt("legacy"), func(r *ledger.Record) { r.Operation.State = ledger.Committed }), noon, advice.Leave, "", "it landed", time.Time{}},
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
	with := without.WithHistory(advice.History([]ledger.DoubtCount{{Kind: "another", Class: ledger.ClassTimeout, Landed: 2, Missed: 2}}))
	beside := func(rec ledger.Record) ledger.Record {
		rec.Related = []ledger.Relation{{ID: "x", Title: "again", State: ledger.Committed, MayHaveLanded: true, Overtook: true}}
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
		{"dear both ways", with, doubt("legacy"), advice.Look, "", "looking costs 5"},
		{"a duplicate is dearer", with, doubt("post"), advice.Leave, "", ""},
		{"a miss is dearer", with, doubt("mail"), advice.Retry, ledger.BasisRiskAccepted, "costs less"},
		{"a miss is dearer, but overtaken", with, beside(doubt("mail")), advice.Abandon, "", "overtaken: "},
		{"a duplicate is dearer, but overtaken", with, beside(doubt("post")), advice.Abandon, "", "overtaken: "},
		{"even", with, doubt("cheap"), advice.Leave, "", ""},
		{"a duplicate is dearer, no case", without, doubt("post"), advice.Look, "", "no case"},
		{"a miss is dearer, no case", without, doubt("mail"), advice.Look, "", "no case"},
		{"even, no case", without, doubt("cheap"), advice.Look, "", "no case"},
		{"no price", with, doubt("unpriced"), advice.Look, "", "no price"},
		{"a price that errs", with, doubt("odd"), advice.Look, "", "no price"},
		{"neither", without, doubt("unpriced"), advice.Look, "", "no case"},
		{"unknown kind", without, doubt("not.listed"), advice.Look, "", "no case"},
	} {
		if a := c.p.Kind(c.rec.Operation.Kind).Advise(c.rec, noon); a.Verb != c.verb || a.Basis != c.basis || !strings.Contains(a.Reason, c.reason) {
			t.Errorf("%s: %s %q (%s); want %s %q (%s)", c.name, a.Verb, a.Basis, a.Reason, c.verb, c.basis, c.reason)
		}
	}
}

// A basis is a claim about all that may have landed, not of this operation alone.
func TestI5_OvertakenByOneThatMayHaveLandedOnlyARiskIsLeft(t *testing.T) {
	p := must(t, priced)
	for name, rec := range map[string]ledger.Record{"not there": proven1(doubt("proof")), "key": doubt("keyed"), "idempotent": doubt("deploy")} {
		k := p.Kind(rec.Operation.Kind)
		alone, _, _ := k.AllowedBasis(rec, noon)
		need.That(t, alone != ledger.BasisRiskAccepted, "%s: a risk without another one", name)
		rec.Related = []ledger.Relation{{ID: "x", Title: "again", State: ledger.Abandoned, Overtook: true, MayHaveLanded: true}}
		basis, why, _ := k.AllowedBasis(rec, noon)
		need.That(t, basis == ledger.BasisRiskAccepted && strings.Contains(why, "again"), "%s, overtaken: %s (%s)", name, basis, why)
	}
}

// What sending and leaving cost is reckoned with the chance as it is printed.
func TestCostsAreReckonedWithThePrintedChance(t *testing.T) {
	for p, want := range map[float64]string{0: "0.00", 1: "1.00", 0.5: "0.50", 0.67766: "0.68", 0.0042: "0.0042", 0.99581: "0.9958", 0.05: "0.05", 0.0549: "0.055", 0.1: "0.10"} {
		need.Equal(t, advice.Share(p), want, p)
	}
	k := must(t, priced).WithHistory(advice.History([]ledger.DoubtCount{{Kind: "legacy", Class: ledger.ClassTimeout, Landed: 20, Missed: 9}})).Kind("legacy")
	a := k.Advise(doubt("legacy"), noon)
	if a.Odds.P == advice.Rounded(a.Odds.P) || a.RetryCost != advice.Rounded(a.Odds.P)*24_000 || math.Abs(a.LeaveCost-(1-advice.Rounded(a.Odds.P))*12_000) > 1e-6 {
		t.Errorf("chance %v: retry %v, leave %v", a.Odds.P, a.RetryCost, a.LeaveCost)
	}
	price := k.Price(doubt("legacy"))
	need.That(t, math.Abs(price.Rank-a.LeaveCost) <= 1e-6, "the list prices a miss with %v, the advice with %v", price.Rank, a.LeaveCost)
}

func TestMoney(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 5: "5", 420.5: "420.50", 1234567.891: "1,234,567.89", 1000: "1,000", 999.999: "1,000"} {
		need.Equal(t, expr.Money(v), want, v)
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
		Kind: kind, Token: "t", TokenSent: rapid.Bool().Draw(t, "token sent"), PersonOnly: rapid.Bool().Draw(t, "person only"),
		State:      rapid.SampledFrom([]ledger.State{ledger.Pending, ledger.Committed, ledger.Failed, ledger.Uncertain, ledger.Abandoned}).Draw(t, "state"),
		ErrorClass: rapid.SampledFrom([]ledger.ErrorClass{"", "timeout", "5xx", "throttled", "odd"}).Draw(t, "class"),
		Verdict:    rapid.SampledFrom([]ledger.Verdict{"", ledger.Landed, ledger.NotThere, ledger.Different, ledger.Twice}).Draw(t, "verdict"),
		Conflict:   rapid.SampledFrom([]ledger.Conflict{"", ledger.ConflictTwice, ledger.ConflictDisputed}).Draw(t, "conflict"),
		Doubted:    rapid.Bool().Draw(t, "doubted"), ParkedUntil: when("parked"), DoubtedAt: when("doubted at"), EndedAt: when("ended"), StartedAt: when("started"), DeadlineAt: when("deadline"),
		Input: []byte(`{"a":1,"b":0}`),
	}}
	for i := range rapid.IntRange(0, 3).Draw(t, "attempts") {
		rec.Attempts = append(rec.Attempts, ledger.Attempt{N: i + 1, StartedAt: when("a start"), EndedAt: when("a end"), DeadlineAt: when("a deadline"),
			KeyWorks: rapid.Bool().Draw(t, "key works"),
			Outcome:  rapid.SampledFrom([]ledger.Outcome{"", ledger.OutcomeFailed, ledger.OutcomeUncertain, ledger.OutcomeCommitted}).Draw(t, "outcome"),
			Proof:    rapid.SampledFrom([]ledger.Proof{"", ledger.NeverSent, ledger.Refused, ledger.ProofNotThere}).Draw(t, "proof")})
	}
	rec.Operation.AttemptCount = len(rec.Attempts)
	for range rapid.IntRange(0, 2).Draw(t, "reads") {
		rec.Reads = append(rec.Reads, ledger.Read{BeganAt: when("read"), Verdict: rapid.SampledFrom([]ledger.Verdict{ledger.CannotTell, ledger.NotThere}).Draw(t, "read verdict"), Cause: ledger.CauseNone})
	}
	for range rapid.IntRange(0, 1).Draw(t, "allowed") {
		rec.Allowed = append(rec.Allowed, ledger.Allowed{ExpiresAt: when("expires")})
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
			need.Must(t, !math.IsNaN(v) && v >= 0 && v <= 1, "%s = %v", name, v)
		}
		need.Must(t, a.Odds.Low <= a.Odds.P+1e-9 && a.Odds.P <= a.Odds.High+1e-9, "odds outside their interval: %+v", a.Odds)
		for name, v := range map[string]float64{"retry": a.RetryCost, "leave": a.LeaveCost, "look": a.LookCost, "rank": k.Price(rec).Rank} {
			need.Must(t, !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0, "%s costs %v", name, v)
		}
		need.Must(t, a.Reason != "" && !strings.Contains(a.Reason, "\n"), "reason %q", a.Reason)
		need.Must(t, (a.Basis != "") == (a.Verb == advice.Retry), "%s with basis %q", a.Verb, a.Basis)
		switch a.Basis {
		case ledger.BasisProof:
			need.Must(t, rec.Operation.State == ledger.Failed && !slices.ContainsFunc(rec.Attempts, func(a ledger.Attempt) bool { return a.Proof == "" }) && !rec.Operation.PersonOnly, "failed without proof")
		case ledger.BasisKeySafe:
			need.Must(t, now.Before(k.KeySafeUntil(rec)), "key safe, but the key is forgotten")
		}
		if a.Basis == ledger.BasisProof || a.Basis == ledger.BasisKeySafe {
			need.Must(t, rec.Overtaken() == nil && rec.Operation.Conflict == "", "an overtaking one or a conflict must stop it")
		}
		basis, why, _ := k.AllowedBasis(rec, now)
		need.Must(t, why != "" && basis != "", "no basis at all")
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
	k.EscalateAfter, k.Deadline, k.Remembers = span("escalates"), span("deadline"), span("remembers")
	k.LandsWithin, k.VisibleWithin, k.VisibleFor = bound("lands"), bound("visible"), bound("visible for")
	k.Retry.Max, k.Effect = rapid.IntRange(0, 3).Draw(t, "max"), rapid.SampledFrom([]advice.Acts{"once", "safe"}).Draw(t, "effect")
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
			need.Must(t, a.ChangesAt.After(now), "changes in the past")
			last = a.ChangesAt.Add(-time.Millisecond)
			b := k.Advise(rec, a.ChangesAt)
			b.ChangesAt = a.ChangesAt
			diff := cmp.Diff(a, b)
			need.Must(t, diff != "", "does not change at %v: %+v", a.ChangesAt, a)
		}
		for _, at := range []time.Time{last, now.Add(time.Duration(rapid.Int64Range(0, last.Sub(now).Milliseconds()).Draw(t, "within")) * time.Millisecond)} {
			diff := cmp.Diff(a, k.Advise(rec, at))
			need.Must(t, diff == "", "changes between %v and %v, at %v (-then +now):\n%s", now, a.ChangesAt, at, diff)
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
		if a.Verb != advice.Look || strings.Join(a.Where.Search, ", ") != c.search || a.Where.Link != c.link || k.Link(rec.Operation) != c.link {
			t.Errorf("%s: %s %+v", c.name, a.Verb, a.Where)
		}
		if to := a.Where.To; !a.Where.From.Equal(noon.Add(-30*time.Second)) || c.kind == "plain" && !to.IsZero() || c.kind == "keyed" && !to.Equal(noon.Add(2*time.Minute+time.Second)) {
			t.Errorf("%s: from %v to %v", c.name, a.Where.From, to)
		}
	}
}
