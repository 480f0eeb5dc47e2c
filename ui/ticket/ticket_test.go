package ticket

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy"
	"indoubt/policy/advice"
	"indoubt/reconcile"
	"indoubt/ui/safe"
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
		return Facts{Advice: advice.Advice{Verb: "look", Odds: advice.Odds{P: 0.5}}}
	}, at, time.UTC)
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
	left := func(fact ledger.State) func(*ledger.Record) {
		return func(r *ledger.Record) { r.Operation.State, r.Operation.Fact = ledger.Abandoned, fact }
	}
	for name, c := range map[string]struct {
		change            func(*ledger.Record)
		landed, clock, do string
	}{
		"in doubt, no case":   {func(*ledger.Record) {}, "?", "no check", "look"},
		"found, for a person": {func(r *ledger.Record) { r.Operation.Verdict = ledger.Landed }, "?", "no check", "look"},
		"not there now":       {func(r *ledger.Record) { r.Operation.Verdict = ledger.NotThere }, "?", "no check", "look"},
		"parked":              {func(r *ledger.Record) { r.Operation.ParkedUntil = at.Add(30 * time.Minute) }, "?", "park 30m", "look"},
		"in flight":           {func(r *ledger.Record) { state(ledger.Pending)(r); r.Operation.DeadlineAt = at.Add(20 * time.Second) }, "?", "ends 20s", "wait"},
		"its deadline passed": {state(ledger.Pending), "?", "no check", "look"},
		"landed":              {state(ledger.Committed), "yes", "01:15:10", "nothing"},
		"refused":             {func(r *ledger.Record) { state(ledger.Failed)(r); r.Operation.Doubted = false }, "no", "01:15:10", "nothing"},
		"proven":              {func(r *ledger.Record) { state(ledger.Failed)(r); r.Attempts[0].Proof = ledger.ProofNotThere }, "no", "–", "look"},
		"on a person's word":  {state(ledger.Failed), "said no", "–", "look"},
		"abandoned":           {left(ledger.Uncertain), "?", "01:15:10", "nothing"},
		"abandoned, proven":   {func(r *ledger.Record) { left(ledger.Failed)(r); r.Attempts[0].Proof = ledger.ProofNotThere }, "no", "01:15:10", "nothing"},
		"abandoned, a word":   {left(ledger.Failed), "said no", "01:15:10", "nothing"},
		"taken back":          {state(ledger.Abandoned), "?", "01:15:10", "nothing"},
		"twice":               {conflict(ledger.ConflictTwice), "TWICE", "–", "resolve"},
		"three times":         {func(r *ledger.Record) { conflict(ledger.ConflictTwice)(r); r.Operation.Effects = 3 }, "TWICE", "–", "resolve"},
		"perhaps twice":       {conflict(ledger.ConflictMaybeTwice), "TWICE?", "–", "resolve"},
		"another than meant":  {conflict(ledger.ConflictDifferent), "OTHER", "–", "resolve"},
		"contradicted":        {conflict(ledger.ConflictDisputed), "DISPUTED", "–", "resolve"},
		"overtaken":           {func(r *ledger.Record) { r.Related = []ledger.Relation{{ID: "2", Overtook: true, MayHaveLanded: true}} }, "?", "overtaken", "look"},
		"overtaken, and its checks go on": {func(r *ledger.Record) {
			r.Related = []ledger.Relation{{ID: "2", Overtook: true, MayHaveLanded: true}}
			r.Pricing.DecideAt = at.Add(40 * time.Second)
		}, "?", "overtaken", "look"},
		"overtaken in vain": {func(r *ledger.Record) { r.Related = []ledger.Relation{{ID: "2", Overtook: true}} }, "?", "no check", "look"},
		"after another one": {func(r *ledger.Record) { r.Related = []ledger.Relation{{ID: "2", MayHaveLanded: true}} }, "?", "no check", "look"},
	} {
		o := operation(c.change)
		clock, _ := o.Clock()
		landed, _ := o.Landed()
		if do := o.Do(); landed.String() != c.landed || clock.String() != c.clock || do.String() != c.do {
			t.Errorf("%s: %q %q %q; want %q %q %q", name, landed, clock, do, c.landed, c.clock, c.do)
		}
		if o.Twice().String() != "24.0k" || o.Never().String() != "~10" {
			t.Errorf("%s costs %q and %q", name, o.Twice(), o.Never())
		}
		if known, _ := o.Known(); known.Empty() {
			t.Errorf("%s: nothing is said to be known", name)
		}
	}
}

// What a check does not see is named in the list and in the record, and gambled with by nobody.
func TestWhatIsNotSeenIsNamed(t *testing.T) {
	o := operation(func(r *ledger.Record) {
		r.Reads = []ledger.Read{{Verdict: ledger.NotSeen, Over: 1, BeganAt: at}}
	})
	o.Facts.Basis = ledger.BasisNotSeen
	o.Facts.Advice = advice.Advice{Verb: advice.Retry, Basis: ledger.BasisNotSeen, Odds: advice.Odds{P: 0.1, N: 3}}
	landed, _ := o.Landed()
	known, _ := o.Known()
	said := []string{landed.String(), o.Do().String(), known.String(), o.Price(80).String(), o.WouldRetry().String()}
	need.Equal(t, strings.Join(said, "|"), "not seen|retry|not seen: looked at 02:15:10, sees its siblings||"+
		"sends once more: a check sees others, and not this one; one y", "what is said")
}

// How long an effect took to show is told, and that its policy hardly waits as long.
func TestALagIsTold(t *testing.T) {
	landed := operation(func(r *ledger.Record) {
		r.Operation.State, r.Operation.EndedAt = ledger.Committed, at
		r.Reads = []ledger.Read{{Verdict: ledger.Landed, BeganAt: at.Add(time.Minute)}, {Verdict: ledger.NotSeen, BeganAt: at.Add(49 * time.Second)}}
	})
	for visible, near := range map[time.Duration]bool{time.Hour: false, 11 * time.Second: false, 10 * time.Second: true} {
		p := need.Get(policy.Parse("policy.yaml", fmt.Appendf(nil,
			"version: 1\nkinds: { %s: { lands_within: 51s, visible_within: %s } }\n", landed.Record.Operation.Kind, visible)))(t)
		landed.Facts = ByPolicy(func() *policy.Policy { return p })(*landed.Record, at.Add(time.Hour))
		known, tone := landed.Known()
		need.That(t, strings.Contains(known.String(), "not yet seen 49s after its end") &&
			strings.Contains(known.String(), "near its policy's times") == near && (tone == Warn) == near, "%s: %q, tone %d", visible, known, tone)
	}
}

// A row whose record is not read yet claims nothing.
func TestARowAloneClaimsNothing(t *testing.T) {
	o := operation(func(*ledger.Record) {})
	o.Record, o.Facts, o.Row.Pricing = nil, Facts{}, ledger.Pricing{}
	clock, _ := o.Clock()
	landed, _ := o.Landed()
	if landed.String() != "…" || o.Do().String() != "…" || !clock.Empty() || o.Twice().String() != "…" {
		t.Errorf("%q %q %q %q", landed, o.Do(), clock, o.Twice())
	}
}

// The factors of the printed arithmetic give the printed product, and the two
// chances make one.
func TestThePrintedArithmeticMultiplies(t *testing.T) {
	number := func(text string) float64 {
		v := need.Get(strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64))(t)
		return v
	}
	product := regexp.MustCompile(`(\S+) × (\S+) = (\S+)`)
	for landed := range 40 {
		past := advice.History([]ledger.DoubtCount{{Kind: "pay", Class: ledger.ClassTimeout, Landed: landed, Missed: 19}})
		p := need.Get(policy.Parse("p.yaml", []byte("version: 1\nkinds:\n  pay: { cost: { duplicate: 24000, miss: 1234.56 } }\n")))(t)
		o := operation(func(r *ledger.Record) { r.Operation.ErrorClass = ledger.ClassTimeout })
		o = From(*o.Record, ByPolicy(func() *policy.Policy { return p.WithHistory(past) }), at, time.UTC)
		text, sum := o.Price(whole).String(), 0.0
		found := product.FindAllStringSubmatch(text, -1)
		for _, m := range found {
			if got := number(m[1]) * number(m[2]); math.Abs(got-number(m[3])) > 0.005001 {
				t.Errorf("%q: it is %.2f", m[0], got)
			}
			sum += number(m[1])
		}
		need.That(t, len(found) == 2 && math.Abs(sum-1) <= 1e-9, "the chances of %q make %v", text, sum)
	}
}

const whole = 1000

// A guess names the cases of its own kind, apart from those of other kinds.
func TestAGuessNamesItsBase(t *testing.T) {
	for _, c := range []struct {
		own, others int
		landed, say string
	}{
		{0, 0, "?", "from no case"},
		{8, 0, "69%", "8 cases"},
		{0, 240, "69%", "none of this kind"},
		{12, 240, "69%", "12 cases"},
		{208, 0, "69%", "208 cases"},
		{1500, 0, "69%", "1,500 cases"},
		{123_456, 0, "69%", "123,456 cases"},
	} {
		o := operation(func(*ledger.Record) {})
		o.Facts.Advice.Odds = advice.Odds{P: 0.69, N: c.own + min(c.others, 8), Others: c.others}
		if c.others > 0 {
			o.Facts.Advice.Odds.Why = map[bool]string{true: "none of this kind yet, 240 of other kinds", false: "12 cases like it and 240 of other kinds"}[c.own == 0]
		}
		landed, _ := o.Landed()
		if landed.String() != c.landed || !strings.Contains(o.Guess().String(), c.say) {
			t.Errorf("%d own, %d others: %q, %q", c.own, c.others, landed, o.Guess())
		}
	}
}

// Ledger text is written out, whatever part of the ticket it is in.
func TestI11_ATicketIsSafe(t *testing.T) {
	const bad, shown = "a\x1b[31m", `a\x1b[31m`
	o := operation(func(r *ledger.Record) {
		p := &r.Operation
		p.Title, p.Actor, p.Reason, p.Receipts, p.State, p.Effects = bad, bad, bad, []string{bad, "b"}, ledger.Committed, 2
		p.Conflict, p.ConflictNote, p.Source.Pipeline = ledger.ConflictTwice, bad, bad
		r.Attempts[0].Actor, r.Attempts[0].Receipt = bad, bad
		r.Reads = []ledger.Read{{Verdict: ledger.Twice, Found: 2, Receipts: p.Receipts, Reason: bad, Evidence: []byte(`[{"id":"a\u001b[31m","status":"a\u001b[31m"}]`)}}
	})
	o.Events = []ledger.Event{{Verb: "note", Actor: ledger.Actor{Name: bad}, Reason: bad}}
	texts := []safe.Text{o.Title(), o.Pipeline(), o.WhereToLook(), o.LastSeen(), o.Became()}
	known, _ := o.Known()
	for _, e := range o.Timeline() {
		texts = append(texts, safe.Say("%s %s", e.Who, e.What))
	}
	all := safe.Join(append(texts, known), "\n").String()
	need.That(t, !strings.Contains(all, "\x1b") && !strings.Contains(all, `\\x1b`) && strings.Count(all, shown) >= 12, "unsafe, or made safe twice:\n%s", all)
}

func TestAReceiptIsNotSaidTwice(t *testing.T) {
	got := Verdict(ledger.Read{Verdict: ledger.Twice, Found: 2, Receipts: []string{"po_1", "po_2"}, Reason: "2 matched; expected 1: po_1, po_2"}).String()
	need.That(t, got == "found 2: po_1, po_2", "it says %q", got)
	got = Verdict(ledger.Read{Verdict: ledger.Landed, Receipts: []string{"po_1"}, Reason: "found po_1; not settled: another engine works"}).String()
	need.That(t, got == "landed, receipt po_1: not settled: another engine works", "it says %q", got)
}

// In a conflict each effect stands with the other side's own words.
func TestAConflictTellsItsEffectsApart(t *testing.T) {
	o := operation(func(r *ledger.Record) {
		r.Operation.State, r.Operation.Conflict, r.Operation.Receipts = ledger.Committed, ledger.ConflictTwice, []string{"po_1", "po_2"}
		r.Reads = []ledger.Read{{Verdict: ledger.Twice, EndedAt: at.Add(time.Hour), Receipts: r.Operation.Receipts, Evidence: []byte(`{"data":[{"id":"po_1","amount":42000},{"id":"po_2","amount":"420.00"}]}`)}}
	})
	entries := o.Timeline()
	got := entries[len(entries)-1].What.String()
	need.That(t, strings.HasSuffix(got, "po_1 (amount 42000), po_2 (amount 420.00)"), "it says %q", got)
}

// Who parked it or allowed a send since did not say whether it landed.
func TestWhoSaidWhatIsRecorded(t *testing.T) {
	found := ledger.Event{Verb: "read", Actor: ledger.Actor{Name: "checks"}, Reason: "none found", From: ledger.Uncertain, To: ledger.Failed, At: at.Add(-time.Hour)}
	for verb, want := range map[string]string{"allow": "checks", "park": "checks", "deny": "maya"} {
		v := operation(func(r *ledger.Record) {
			r.Operation.State, r.Operation.Actor, r.Operation.Reason, r.Operation.UpdatedAt = ledger.Failed, "maya", "why", at
		})
		v.Events = []ledger.Event{found, {Verb: verb, Actor: ledger.Actor{Name: "maya"}, Reason: "why", From: ledger.Failed, To: ledger.Failed, At: at}, {Verb: "note", Actor: ledger.Actor{Name: "sam"}, Reason: "remark"}}
		known, _ := v.Known()
		for _, said := range []safe.Text{known, v.Off(ledger.VerbConfirm), safe.Say("%v", v.Risks(reconcile.Plan{}))} {
			need.Must(t, strings.Contains(said.String(), want), "after %s: %s", verb, said)
		}
	}
}

// What many writers escape reads as text, also where it is about to be sent.
func TestInputReadsAsItWasMeant(t *testing.T) {
	lines := Input([]byte(`{"name":"Ren\u00e9","text":"a\nb"}`))
	need.Equal(t, safe.Join(lines, "\n").String(), "{\n  \"name\": \"René\",\n  \"text\": \"a\\nb\"\n}")
	need.Equal(t, safe.Join(Body("a=\\n\nb\x1b"), "\n").String(), "a=\\\\n\nb\\x1b")
	need.Equal(t, len(Input(nil))+len(Input([]byte("null"))), 0)
}
