package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/policy"
	"indoubt/policy/advice"
	"indoubt/reconcile"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"
)

// What the screen says must be so, and be there.

// nightWith is the night with one more operation, which stands on top.
func nightWith(t *testing.T, w, h int, r ledger.Record) *bench {
	t.Helper()
	o := nightOptions()
	r.Pricing.Rank = 1e9
	o.Store.(*memory).put(r)
	b := newBench(t, w, h, o).judged(nightFacts).keys("g")
	for range 20 {
		if b.m.table.Chosen().ID == r.Operation.ID {
			return b
		}
		b.keys("j")
	}
	t.Fatalf("the operation is not in the list:\n%s", b.screen())
	return nil
}

func lineWith(screen, text string) string {
	for _, l := range strings.Split(screen, "\n") {
		if strings.Contains(l, text) {
			return l
		}
	}
	return ""
}

func TestAnAmountIsNeverCutOff(t *testing.T) {
	for e := -4.0; e < 308; e += 0.01 {
		v := math.Pow(10, e)
		for _, v := range []float64{v, math.Round(v), math.Nextafter(math.Round(v), 0)} {
			if got := ticket.Money(v); draw.Width(got) > 6 || got == "0.00" {
				t.Fatalf("%v is shown as %q", v, got)
			}
			if got := ticket.Cost(ledger.Cost{Value: v, Guess: true}); draw.Width(got) > 6 && v < 1e15 {
				t.Fatalf("a guess of %v is shown as %q", v, got)
			}
		}
	}
	for v, want := range map[float64]string{0: "0", 4.2: "4.20", 999.999: "1,000", 5800: "5,800", 62_150: "62.1k", 999_949: "999.9k", 1_304_000: "1.30M", 999.9e6: "999.9M", 20e9: "20.0G", 2e14: "200.0T", 3e18: "3e18"} {
		need.Equal(t, ticket.Money(v), want, v)
	}
	for _, w := range []int{60, 80, 120, 200} {
		b := nightWith(t, w, 40, doubt(20, "x.y", "huge", "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0.5, amount(2e14), ledger.Cost{Value: 100_000, Guess: true}))
		line := lineWith(b.screen(), "▌  ")
		need.That(t, strings.Contains(line, " ~100k ") && (w <= 60 || strings.Contains(line, " 200.0T ")), "at %d the costs are cut: %s", w, line)
	}
}

func TestTheArithmeticIsNeverCutOff(t *testing.T) {
	for _, w := range []int{60, 80, 120, 160} {
		b := nightWith(t, w, 24, doubt(20, "legacy.charge", "charge", "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0.5, amount(246_913.56), amount(123_456.78)))
		line := strings.TrimRight(lineWith(b.screen(), "PRICE"), " ")
		need.That(t, strings.Contains(line, "looking 5") && !strings.Contains(line, "…"), "at %d: %s", w, line)
	}
}

func thrice() ledger.Record {
	r := doubt(20, "bank.payout", "payout 78.00", "billing", "02:25:07", "02:25:37", ledger.ClassTimeout, 1, amount(78), amount(78))
	o := &r.Operation
	o.State, o.Verdict, o.Conflict, o.ConflictNote = ledger.Committed, ledger.Twice, ledger.ConflictTwice, "a check found three"
	o.Effects, o.Receipts = 3, []string{"po_first_of_all_the_payouts_0123456789abcdef", "po_2", "po_3"}
	r.Reads = []ledger.Read{{ID: "r", BeganAt: at("02:40:09"), EndedAt: at("02:40:10"), Verdict: ledger.Twice, Found: 3, Receipts: o.Receipts,
		Evidence: json.RawMessage(`{"data":[{"id":"po_first_of_all_the_payouts_0123456789abcdef","status":"paid"},{"id":"po_2","status":"pending"},{"id":"po_3","status":"returned"}]}`)}}
	return r
}

func TestMoreThanTwoEffectsAreNotCalledTwo(t *testing.T) {
	nightWith(t, 80, 24, thrice()).shows("3 effects exist. Take 2 back").hides("two effects")
}

// flat is the screen as one line: texts wrap.
func (b *bench) flat() string { return strings.Join(strings.Fields(b.screen()), " ") }

// toldOf is what the record says of a conflict, and a failure where some of it is missing.
func (b *bench) toldOf(w int, texts ...string) {
	b.t.Helper()
	flat := strings.ReplaceAll(b.keys("enter").flat(), " ", "")
	for _, text := range texts {
		need.That(b.t, strings.Contains(flat, strings.ReplaceAll(text, " ", "")), "at %d the record does not say %q:\n%s", w, text, b.screen())
	}
}

func TestEveryEffectIsToldFromTheOthers(t *testing.T) {
	for _, w := range []int{80, 120, 200} {
		nightWith(t, w, 40, thrice()).toldOf(w, "HAPPENED 3 TIMES", "for each of 2 too many", "Take 2 back outside",
			"po_first_of_all_the_payouts_0123456789abcdef (status paid), po_2 (status pending), po_3 (status returned)")
	}
}

func TestAMismatchShowsWhatWasAskedAndWhatWasFound(t *testing.T) {
	r := doubt(20, "bank.payout", "payout 79.00", "billing", "02:25:07", "02:25:37", ledger.ClassTimeout, 1, amount(158), amount(79))
	r.Operation.Input = json.RawMessage(`{"amount":79,"customer":"cus_1","note":"n"}`)
	r.Operation.Conflict, r.Operation.ConflictNote, r.Operation.Verdict = ledger.ConflictDifferent, "found one, but it is not what was asked", ledger.Different
	r.Reads = []ledger.Read{{ID: "r", BeganAt: at("02:40:09"), EndedAt: at("02:40:10"), Verdict: ledger.Different, Found: 1, Receipts: []string{"ch_7"},
		Evidence: json.RawMessage(`{"effects":[{"receipt":"ch_7","same":false,"value":{"id":"ch_7","amount":80,"customer":"cus_1"}}]}`)}}
	nightWith(t, 80, 24, r).shows("found one, but it is not what was asked").hides("it landed")
	nightWith(t, 80, 40, r).toldOf(80, "receipt ch_7 (amount 80, asked 79)")
}

func TestAContradictionShowsWhatWasRecordedAndWhatWasFound(t *testing.T) {
	r := doubt(20, "bank.payout", "payout 321.00", "billing", "02:25:07", "02:25:37", ledger.ClassTimeout, 1, amount(642), amount(321))
	o := &r.Operation
	o.State, o.Conflict, o.ConflictNote = ledger.Failed, ledger.ConflictDisputed, "recorded as failed by ana (not in the dashboard), but a later check found it"
	o.Actor, o.Reason, o.Receipts = "checks", "found ch_8", []string{"ch_8"}
	r.Reads = []ledger.Read{{ID: "r", BeganAt: at("02:40:09"), EndedAt: at("02:40:10"), Verdict: ledger.Landed, Found: 1, Receipts: []string{"ch_8"}, Reason: "1 matched"}}
	opts := nightOptions()
	s := opts.Store.(*memory)
	r.Pricing.Rank = 1e9
	s.put(r)
	s.Put(ledgertest.Contents{Events: []ledger.Event{{ID: "e3", OperationID: id(20), At: at("02:30:00"), Verb: "deny", Actor: ledger.Actor{Name: "ana"}, Reason: "not in the dashboard", From: ledger.Uncertain, To: ledger.Failed, Version: 3}}})
	b := newBench(t, 80, 40, opts).judged(nightFacts).keys("g")
	b.hides("it did not land (checks")
	b.toldOf(80, `02:30:00 ana did not land, "not in the dashboard"`, "02:40:10 check 1 landed, receipt ch_8", "642 if it is sent again now and had landed")
}

func TestTheAdviceIsOnTheScreenHoweverMuchWasSeen(t *testing.T) {
	r := doubt(20, "legacy.charge", "charge cus_1QX", "billing", "02:15:02", "02:15:32", ledger.ClassTimeout, 0.5, amount(24000), amount(12000))
	for n := range 40 { // every second one says something else
		reason := "answered 500"
		if n%2 == 0 {
			reason = "page limit reached"
		}
		r.Reads = append([]ledger.Read{{ID: fmt.Sprint("r", n), BeganAt: at("02:16:00"), EndedAt: at("02:16:00").Add(time.Duration(n) * time.Minute), Verdict: ledger.CannotTell, Reason: reason}}, r.Reads...)
	}
	for _, size := range [][2]int{{80, 24}, {120, 40}, {160, 48}, {200, 60}} {
		b := nightWith(t, size[0], size[1], r).shows("→ LOOK")
		b.keys("enter").shows("→ LOOK", "KNOWN", "check 40")
		if size[1] < 60 {
			b.shows("↵ shows them")
		}
		b.keys("enter").hides("↵ shows them").shows("check 1 ")
	}
}

func TestChecksThatSayTheSameAreOneLine(t *testing.T) {
	r := doubt(20, "legacy.charge", "charge cus_1QX", "billing", "02:15:02", "02:15:32", ledger.ClassTimeout, 0.5, amount(24000), amount(12000))
	for n := range 12 {
		r.Reads = append([]ledger.Read{{ID: fmt.Sprint("r", n), EndedAt: at("02:16:00").Add(time.Duration(n) * time.Second), Verdict: ledger.CannotTell, Reason: fmt.Sprintf("none found, too early: proof possible in %d s", 41-n)}}, r.Reads...)
	}
	nightWith(t, 120, 40, r).keys("enter").shows("12 checks", "02:16:11", "proof possible in 30 s, since 02:16:00").hides("in 31 s")
}

func TestAnOutcomeIsNamedAfterItsAttempt(t *testing.T) {
	o := nightOptions()
	s := o.Store.(*memory)
	s.Put(ledgertest.Contents{Events: []ledger.Event{{ID: "e3", OperationID: id(5), At: at("02:44:20"), Verb: "note", Actor: ledger.Actor{Name: "sam"}, Reason: "it hangs"}}})
	b := newBench(t, 80, 24, o).judged(nightFacts).cursorOn(5)
	b.hides("sam: no clear answer").shows("attempt 1 no clear answer")
	if line := lineWith(b.keys("enter").screen(), "no clear answer"); !strings.Contains(line, "attempt 1") {
		t.Errorf("whose answer is it?\n%s", b.screen())
	}
}

func TestTheShortDetailDoesNotCutTheAdvice(t *testing.T) {
	o := nightOptions()
	why := "both mistakes cost more than looking, as the cases of the last ninety days that were like it have shown: look at both"
	b := newBench(t, 80, 24, o).judged(func(r ledger.Record, now time.Time) ticket.Facts {
		f := nightFacts(r, now)
		if f.Advice.Verb == advice.Look {
			f.Advice.Reason = why
		}
		return f
	}).cursorOn(2)
	b.shows("look at both")
}

func TestAnAllowanceCountsDownAndEndsInItsDialog(t *testing.T) {
	o := nightOptions()
	e := o.Engine.(*fakeEngine)
	p := e.plans[id(4)]
	p.Basis, p.Why, p.LapsesAt = ledger.BasisKeySafe, "its key is remembered", night.Add(90*time.Second)
	e.plans[id(4)] = p
	b := newBench(t, 80, 30, o).judged(nightFacts).cursorOn(4).keys("R").shows("UNTIL", "left")
	b.m.View()
	need.That(t, b.m.Ticks, "nothing ticks while seconds are counted")
	left := lineWith(b.screen(), "UNTIL")
	if b.tickOver(20 * time.Second); lineWith(b.screen(), "UNTIL") == left {
		t.Errorf("it still says %s", left)
	}
	b.tickOver(2 * time.Minute).shows("no longer holds").keys("y").shows("nothing was done")
	need.Must(t, len(e.retried) == 0, "it was sent")
}

func TestWhatCannotBeTypedIsNotAskedFor(t *testing.T) {
	o := nightOptions()
	e := o.Engine.(*fakeEngine)
	p := e.plans[id(2)]
	p.Loss = amount(123_456_789_012.50)
	e.plans[id(2)] = p
	newBench(t, 80, 30, o).judged(nightFacts).cursorOn(2).keys("R").shows("Type that loss", "123,456,789,012.50").hides("Type 1234567")
}

func TestAnEngineThatOnlyLooksIsSaidSo(t *testing.T) {
	for _, w := range []int{60, 80, 120, 200} {
		o := nightOptions()
		o.Engine.(*fakeEngine).looks = true
		b := newBench(t, w, 24, o).judged(nightFacts)
		b.send(feed.Changed{})
		b.shows("ONLY LOOKING").hides("checks: this console")
	}
}

func TestARetryAgainstAConflictOrAWordSaysSo(t *testing.T) {
	ask := func(change func(*ledger.Record)) *bench {
		r := doubt(20, "bank.payout", "payout 1.00", "billing", "02:25:07", "02:25:37", ledger.ClassTimeout, 0, amount(642), amount(321))
		r.Operation.State, r.Operation.Actor, r.Operation.Reason = ledger.Failed, "ana", "not in the dashboard"
		change(&r)
		r.Pricing.Rank = 1e9
		o := nightOptions()
		o.Store.(*memory).put(r)
		o.Engine.(*fakeEngine).plans[id(20)] = reconcile.Plan{Basis: ledger.BasisRiskAccepted, Sender: "http", WillSend: "POST https://x", Loss: amount(642)}
		return newBench(t, 80, 30, o).judged(nightFacts).cursorOn(20).keys("R").shows("RETRY WITHOUT PROOF", "it happens twice: 642").hides("NOBODY KNOWS", "ON AVERAGE", "better")
	}
	ask(func(*ledger.Record) {}).shows("only said, by ana")
	ask(func(r *ledger.Record) {
		r.Operation.Conflict, r.Operation.ConflictNote = ledger.ConflictDisputed, "recorded as failed by ana, but a later check found it"
	}).shows("IN CONFLICT", "a later check found it")
}

func TestAGuessSaysWhatItRestsOn(t *testing.T) {
	o := nightOptions()
	newBench(t, 120, 40, o).judged(func(r ledger.Record, now time.Time) ticket.Facts {
		f := nightFacts(r, now)
		f.Advice.Odds = advice.Odds{P: 0.08, N: 8, Low: 0, High: 0.3, Others: 36, Why: "none of this kind yet, 36 of other kinds (timeout)"}
		return f
	}).cursorOn(2).shows("8% (0–30%) is a guess: none of this kind yet, 36 of other kinds")
}

func TestSaidNotToHaveLandedIsNoFact(t *testing.T) {
	r := doubt(20, "bank.payout", "payout 1.00", "billing", "02:25:07", "02:25:37", ledger.ClassTimeout, 1, amount(642), amount(321))
	r.Operation.State, r.Operation.Actor, r.Operation.Reason = ledger.Failed, "ana", "not in the dashboard"
	b := nightWith(t, 80, 24, r).shows("said no", "without proof").keys("enter")
	b.hides("sending again costs nothing twice").shows("642 if it landed after all")
	newBench(t, 80, 24, nightOptions()).judged(nightFacts).cursorOn(4).hides("said no")
}

func TestAThrottledDownstreamSaysUntilWhen(t *testing.T) {
	o := nightOptions()
	o.Engine.(*fakeEngine).health = []reconcile.Health{{Downstream: "stripe", State: reconcile.StateSlow, Since: at("03:06:30"), Until: at("03:07:10")}}
	newBench(t, 160, 48, o).judged(nightFacts).shows("stripe throttled 10s: asked to wait until 03:07:10")
	newBench(t, 60, 20, o).judged(nightFacts).shows("stripe throttled 10s")
}

func TestARiskIsTakenByWhoAllowedIt(t *testing.T) {
	r := doubt(20, "legacy.charge", "charge cus_1QX", "billing", "02:15:02", "02:15:32", ledger.ClassTimeout, 0.5, amount(24000), amount(12000))
	r.Attempts = append(r.Attempts, ledger.Attempt{ID: "second", N: 2, Sender: "pipeline", Actor: "billing", Basis: ledger.BasisRiskAccepted, StartedAt: at("02:20:00"), EndedAt: at("02:20:01"), Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout})
	r.Operation.AttemptCount = 2
	r.Allowed = []ledger.Allowed{{ID: "g", Actor: "ana", Basis: ledger.BasisRiskAccepted, AttemptID: "second"}}
	nightWith(t, 160, 60, r).shows("risk taken by ana").hides("risk taken by billing")
	r.Allowed = nil // not known who: not the one that sent
	nightWith(t, 160, 60, r).shows("without proof").hides("risk taken by billing")
}

// The demonstration says on its first screen that it is one, what happened, and how to
// leave it.
func TestTheDemonstrationGreets(t *testing.T) {
	o := outageOptions(t)
	o.Banner = "demo: a simulated outage"
	b := newBench(t, 80, 24, o).judged(nightFacts).shows("DEMO", "stripe: 21 lost answers in row +: j moves, ↵ opens, ? helps, q quits", "? help")
	b.keys("j").hides("lost answers in row")
}

func TestAnOvertakenOneIsSeenOnTheRow(t *testing.T) {
	r := doubt(20, "legacy.charge", "charge cus_1QX", "billing", "02:15:02", "02:15:32", ledger.ClassTimeout, 0.5, amount(24000), amount(12000))
	r.Related = []ledger.Relation{{ID: id(30), Title: "charge cus_1QX", State: ledger.Committed, CreatedAt: at("02:35:00"), Overtook: true, MayHaveLanded: true}}
	nightWith(t, 80, 24, r).shows("overtaken")
}

func TestThousandsOfRowsThatLeaveAreReadAFewAtATime(t *testing.T) {
	s := newMemory(night)
	const many = 1500
	for n := 1000; n < 1000+many; n++ {
		s.put(doubt(n, "stripe.charge", fmt.Sprint("charge ", n), "billing", "02:50:00", "02:50:30", ledger.ClassTimeout, 0.5, amount(float64(n)), amount(float64(n))))
	}
	o := nightOptions()
	o.Store, o.Engine = s, &fakeEngine{health: []reconcile.Health{}}
	b := newBench(t, 80, 24, o).judged(nightFacts)
	for range 4 {
		b.keys("G")
	}
	for n := 1000; n < 1000+many; n++ {
		r := doubt(n, "stripe.charge", fmt.Sprint("charge ", n), "billing", "02:50:00", "02:50:30", ledger.ClassTimeout, 0.5, amount(float64(n)), amount(float64(n)))
		r.Operation.State, r.Operation.Version, r.Operation.Actor, r.Operation.UpdatedAt = ledger.Committed, 3, "checks", night
		s.put(r)
	}
	most, looks := 0, 0
	var run func(tea.Cmd)
	run = func(cmd tea.Cmd) {
		if cmd == nil {
			return
		}
		before := s.reads
		msg := cmd()
		switch msg := msg.(type) {
		case nil:
		case tea.BatchMsg:
			for _, c := range msg {
				run(c)
			}
		default:
			if _, ok := msg.(feed.Looked); ok {
				looks++
				most = max(most, s.reads-before)
			}
			_, next := b.m.Update(msg)
			run(next)
		}
	}
	_, cmd := b.m.Update(feed.Changed{})
	run(cmd)
	need.That(t, most <= feed.ReadLeft, "one look read %d operations", most)
	left := 0
	for _, i := range b.m.table.Items {
		if i.Gone.Empty() {
			left++
		}
	}
	need.That(t, left <= 0 && looks >= 3, "after %d looks %d rows of %d still stand as if they needed a person", looks, left, len(b.m.table.Items))
	before := s.reads
	b.send(feed.Changed{})
	if n := s.reads - before; n > 40 { // what is on the screen may be read for its details
		t.Errorf("rows known to have left are read again: %d", n)
	}
}

func TestWhatNoEngineHasPricedCostsNotNothing(t *testing.T) {
	s := newMemory(night)
	rec := doubt(7, "x.post", "", "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(0), amount(0))
	rec.Pricing = ledger.Pricing{OperationID: rec.Operation.ID}
	s.put(rec)
	o := nightOptions()
	o.Store = s
	price := func(r ledger.Record, now time.Time) ticket.Facts {
		f := nightFacts(r, now)
		f.Price = ledger.Pricing{Digest: "p", Title: "post the news", Duplicate: amount(812), Miss: amount(97)}
		return f
	}
	b := newBench(t, 100, 24, o).judged(price)
	line := func() string {
		return lineWith(b.screen(), "▌  ")
	}
	b.m.feed.JudgeBy(price)
	b.m.dirty = true
	if got := line(); strings.Contains(got, " 0") || strings.Count(got, "…") < 4 {
		t.Errorf("before its details are read: %q", got)
	}
	b.send(feed.Changed{})
	if got := line(); !strings.Contains(got, "post the news") || !strings.Contains(got, "812") || !strings.Contains(got, "97") {
		t.Errorf("with its details: %q", got)
	}
	// Details of what it has become since are not this row's.
	b.m.feed.Brief().At(night, cest).Record.Operation.Version++
	b.m.dirty = true
	if got := line(); strings.Contains(got, "812") {
		t.Errorf("with another version's details: %q", got)
	}
}

func TestHeaderKeepsWhatMattersMost(t *testing.T) {
	o := nightOptions()
	s := o.Store.(*memory)
	s.Put(ledgertest.Contents{Holds: []ledger.Hold{{Scope: "downstream:stripe", Actor: ledger.Actor{Name: "sam"}, Reason: "r", ChangeID: "h"}}})
	b := newBench(t, 200, 40, o).judged(nightFacts)
	want := []string{"6 NEED YOU", "6,425 at stake", "1 HAPPENED TWICE", "HOLD", "last write", "last new error", "checks", "maya", "03:06 CEST"}
	b.shows(want...)
	short := []string{"6 NEED YOU", "6,425 at stake", "1 TWICE", "HOLD"}
	for w := 60; w >= 26; w -= 2 {
		b.m.w = w
		head := ansi.Strip(strings.Join(b.m.header().Lines(w), "\n"))
		missing := false
		for _, s := range short {
			has := strings.Contains(head, s) || s == "1 TWICE" && strings.Contains(head, "1 HAPPENED TWICE")
			need.That(t, !missing || !has || s == "HOLD", "at %d %q is shown although something graver is not:\n%s", w, s, head)
			missing = missing || !has
		}
		need.That(t, strings.Contains(head, "6 NEED YOU"), "at %d:\n%s", w, head)
	}
}

func TestHeaderTellsThatNoEngineChecks(t *testing.T) {
	for ago, want := range map[time.Duration]bool{-time.Second: false, 4 * time.Minute: false, 12 * time.Minute: true} {
		o := nightOptions()
		o.Store.(*memory).info.EngineAt = o.Clock().Add(-ago)
		if b := newBench(t, 200, 40, o).judged(nightFacts); want {
			b.shows("NO ENGINE has checked for 12m")
		} else {
			b.hides("NO ENGINE")
		}
	}
	o := nightOptions() // one that was killed before the clock was set back
	o.Store.(*memory).info.EngineAt = o.Clock().Add(time.Hour)
	newBench(t, 200, 40, o).judged(nightFacts).shows("NO ENGINE since the clock was set back")
}

// I13: until when what may be lost is looked for; before that is released, the hold is what counts.
func TestI13_HeaderTellsThatNewKeysAreLookedFor(t *testing.T) {
	for until, want := range map[time.Duration]bool{20 * time.Hour: true, 0: false} {
		o := nightOptions()
		look := &ledger.Look{Adopted: o.Clock()}
		if want {
			look.Until = o.Clock().Add(until)
		}
		o.Store.(*memory).info.Look = look
		if b := newBench(t, 200, 40, o).judged(nightFacts); want {
			b.shows("ADOPTED: new keys are looked for first until 14 Jul 23:06")
		} else {
			b.hides("ADOPTED")
		}
	}
}

func TestHeaderTellsThatTheClockWasSet(t *testing.T) {
	for step, want := range map[time.Duration]string{5 * time.Minute: "CLOCK SET FORWARD by 5m at 03:0", -time.Hour: "CLOCK SET BACK by 1h at 03:0"} {
		o := nightOptions()
		s := o.Store.(*memory)
		s.info.Step, s.info.SteppedAt = step, o.Clock().Add(-time.Minute)
		newBench(t, 200, 40, o).judged(nightFacts).shows(want)
		s.info.SteppedAt = o.Clock().Add(-2 * time.Hour)
		newBench(t, 200, 40, o).judged(nightFacts).hides("CLOCK SET")
	}
	o := nightOptions()
	s := o.Store.(*memory)
	s.info.LastWrite, s.info.LastError = o.Clock().Add(time.Hour), o.Clock().Add(time.Hour)
	newBench(t, 200, 40, o).judged(nightFacts).shows("last new error in 1h by the clock", "last write in 1h by the clock")
}

// The sums of the header are kept with the prices of the rows: until rows are priced
// anew they are not what the rows say.
func TestTheHeaderSaysThatItsSumsAreOld(t *testing.T) {
	for _, digest := range []string{"", "of another policy"} {
		o := nightOptions()
		rec := nightStore().record(2)
		rec.Pricing.Digest = digest
		o.Store.(*memory).put(rec)
		newBench(t, 120, 40, o).judged(nightFacts).shows("pricing…")
		o.ReadOnly = true
		newBench(t, 120, 40, o).judged(nightFacts).shows("sums of another policy").hides("pricing…")
	}
	nightBench(t, 120, 40).hides("pricing…")
}

// Without a policy nothing is checked and costs are guesses: the header says nothing else.
func TestWithoutAPolicyNothingIsSaidToBeChecked(t *testing.T) {
	o := nightOptions()
	o.Policy = policy.Default
	o.Store = newMemory(night, doubt(6, "sms.send", "sms code", "signup", "03:05:40", "03:06:10", ledger.ClassTimeout, 0.5, ledger.Cost{Value: 100, Word: "high", Guess: true}, ledger.Cost{Value: 10, Word: "medium", Guess: true}))
	newBench(t, 80, 24, o).shows("NO POLICY", "no checks").hides("checks: this console", "priced in words")
}

// A policy file that is broken from the beginning is not one that is missing.
func TestABrokenPolicyIsNotAMissingOne(t *testing.T) {
	o := nightOptions()
	o.Store, o.Policy = newMemory(night), policy.Default
	o.PolicyProblem = func() error { return errors.New("policy.yaml:8: unknown field") }
	b := newBench(t, 80, 24, o).shows("POLICY NOT TAKEN", "The policy file is broken: nothing is checked").hides("policy init")
	b.keys(":").text("policy").keys("enter").shows("none: nothing is checked", "NOT TAKEN", "unknown field").hides("policy init", "last good")
}

// An operation that comes on the same target changes the advice of the rows that it
// overtakes, and no version.
func TestWhatIsOvertakenIsJudgedAnew(t *testing.T) {
	b := newBench(t, 80, 24, nightOptions())
	b.judged(func(rec ledger.Record, now time.Time) ticket.Facts {
		f := nightFacts(rec, now)
		if f.Advice.Verb == advice.Leave && len(rec.Landings()) > 0 {
			f.Advice.Verb = advice.Abandon
		}
		return f
	}).shows("84%      no check    leave")
	post := b.store.record(5)
	post.Related = []ledger.Relation{{ID: id(6), Title: "post again", Overtook: true, MayHaveLanded: true}}
	b.store.put(post)
	b.send(feed.Changed{})
	b.shows("84%      overtaken   abandon").hides("leave")
	post.Related[0].MayHaveLanded = false // what came later had no effect
	b.store.put(post)
	b.sam(6, ledger.VerbDeny, "refused")
	b.send(feed.Changed{})
	b.shows("84%      no check    leave")
}

// What stands beside a row in the ledger is what the header sums: where the odds of a row on
// the screen are others by now, the engine is asked to price it anew.
func TestTheHeaderSumsWhatTheRowsShow(t *testing.T) {
	o := nightOptions()
	e := o.Engine.(*fakeEngine)
	b := newBench(t, 80, 24, o)
	e.priced = nil
	b.judged(func(rec ledger.Record, now time.Time) ticket.Facts {
		f := nightFacts(rec, now)
		if f.Price = rec.Pricing; rec.Operation.ID == id(2) {
			f.Price.Rank /= 2
		}
		return f
	}).keys("j").tickOver(time.Minute)
	need.Equal(t, fmt.Sprint(slices.Compact(e.priced)), fmt.Sprint([]string{id(2)}))
}
