package act

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/reconcile"

	"pgregory.net/rapid"
)

var (
	vera = ledger.Actor{Name: "vera", Terminal: true}
	sam  = ledger.Actor{Name: "sam", Terminal: true}
)

func init() { Pace = 0 }

// goOn carries out what may begin.
func goOn(t testing.TB, r *Run) {
	t.Helper()
	for work := r.Next(); work != nil; work = r.Next() {
		need.Must(t, r.Next() == nil, "two steps are under way")
		r.Take(work(t.Context()))
	}
}

func items(n int) []ledger.RunItem {
	out := make([]ledger.RunItem, n)
	for i := range out {
		out[i] = ledger.RunItem{OperationID: string(rune('a' + i)), Version: 2, Title: "row " + string(rune('a'+i))}
	}
	return out
}

// came is what a result and an error of a send become.
func came(did string, o ledger.Operation, err error) Outcome {
	return Sent(result(did, o), err)
}

// result is that of a send, whose attempt came to what the operation did.
func result(did string, o ledger.Operation) reconcile.RetryResult {
	a := ledger.Attempt{Receipt: o.Receipt(), Outcome: map[ledger.State]ledger.Outcome{ledger.Committed: ledger.OutcomeCommitted, ledger.Failed: ledger.OutcomeFailed,
		ledger.Uncertain: ledger.OutcomeUncertain}[o.State]}
	return reconcile.RetryResult{Did: did, Operation: o, Attempt: a}
}

func TestWhatBecomesOfASend(t *testing.T) {
	op := func(s ledger.State) ledger.Operation { return ledger.Operation{State: s, Receipts: []string{"ch_1"}} }
	refuse := func(code string) error { return &ledger.RefusedError{Verb: "retry", Code: code, Why: "why"} }
	for name, c := range map[string]struct {
		is   Outcome
		want ledger.Came
		word string
	}{
		"landed":                     {came(reconcile.DidSend, op(ledger.Committed), nil), ledger.CameLanded, "ch_1"},
		"twice":                      {came(reconcile.DidSend, ledger.Operation{State: ledger.Committed, Conflict: ledger.ConflictTwice, ConflictNote: "2 found"}, nil), ledger.CameTwice, "2 found"},
		"did not land":               {came(reconcile.DidSend, op(ledger.Failed), nil), ledger.CameFailed, ""},
		"no answer":                  {came(reconcile.DidSend, op(ledger.Uncertain), nil), ledger.CameUnclear, "no answer was recorded"},
		"sent, and not written down": {came(reconcile.DidSend, op(ledger.Pending), errors.New("it was sent, but")), ledger.CameUnclear, "it was sent, but"},
		"its sender was killed":      {came(reconcile.DidSend, op(ledger.Pending), nil), ledger.CameUnclear, "no answer was recorded"},
		"had landed":                 {came(reconcile.DidLand, op(ledger.Committed), nil), ledger.CameAlready, ""},
		"a check settled it":         {came("", op(""), &ledger.MovedError{Actor: ledger.ActorChecks, State: ledger.Committed}), ledger.CameAlready, ""},
		"a person settled it":        {came("", op(""), &ledger.MovedError{Actor: "sam", State: ledger.Committed}), ledger.CameMoved, ""},
		"for its pipeline":           {came(reconcile.DidAllow, op(ledger.Failed), nil), ledger.CameAllowed, ""},
		"held":                       {came("", op(""), refuse("hold")), ledger.CameHeld, "why"},
		"a twin":                     {came("", op(""), refuse("twin")), ledger.CameSkipped, "why"},
		"its downstream wants time":  {came("", op(""), refuse("throttled")), ledger.CameHeld, "why"},
		"a check could not be made":  {came("", op(""), errors.New("connection refused")), ledger.CameBroken, "connection refused"},
		"changed":                    {came("", op(""), &reconcile.ChangedError{}), ledger.CameHeld, "what would be sent has changed since it was shown; nothing was sent"},
	} {
		need.That(t, c.is.Came == c.want && c.is.Word == c.word && c.is.Left == nil, "%s: %+v", name, c.is)
	}
	for _, err := range []error{refuse("quitting"), refuse("read_only"), context.Canceled} {
		if o := came("", op(""), err); o.Left == nil || o.Came != "" {
			t.Errorf("%v: %+v, but nothing was begun", err, o)
		}
	}
}

// asked is an engine that knows of an operation as it is now.
type asked struct{ rec ledger.Record }

func (a asked) Retry(context.Context, reconcile.RetryRequest) (reconcile.RetryResult, error) {
	return reconcile.RetryResult{Did: reconcile.DidSend, Operation: a.rec.Operation}, nil
}

// A row that the run had sent when its driver was killed is no row that was left out.
func TestI10_WhatARunHadSentIsToldOfAsSent(t *testing.T) {
	rec := ledger.Record{Operation: ledger.Operation{State: ledger.Uncertain}}
	for _, c := range []struct {
		it   ledger.RunItem
		want ledger.Came
	}{
		{ledger.RunItem{OperationID: "a", Basis: ledger.BasisProof, Request: "shown"}, ledger.CameUnclear},
		{ledger.RunItem{OperationID: "a", Basis: ledger.BasisProof}, ledger.CameSkipped}, // nobody saw what would go out
		{ledger.RunItem{OperationID: "a", Request: "shown"}, ledger.CameSkipped},
		{ledger.RunItem{OperationID: "a", Basis: ledger.BasisRiskAccepted, Request: "shown"}, ledger.CameSkipped},
	} {
		out := Hands{Engine: asked{rec}}.send(t.Context(), ledger.DecisionRun{Verb: "retry"}, c.it, "change")
		need.Equal(t, out.Came, c.want, fmt.Sprintf("%+v", c.it))
	}
}

func TestARunGoesAsItsRecordSays(t *testing.T) {
	store := ledgertest.NewMemory(time.Now, nil)
	outcomes := []ledger.Came{ledger.CameLanded, ledger.CameMoved, ledger.CameLanded, ledger.CameLanded, ledger.CameUnclear, ledger.CameAlready, ledger.CameFailed, ledger.CameLanded}
	r := New(store, ledger.DecisionRun{Verb: "retry", Actor: vera, CreatedAt: time.Now()}, items(8), func(_ context.Context, it ledger.RunItem, _ string) Outcome {
		return Outcome{Came: outcomes[it.N], By: map[bool]string{true: "sam"}[outcomes[it.N] == ledger.CameMoved]}
	})
	for _, want := range []struct{ state, tally, sum string }{
		{"waiting", "3 landed · 1 skipped (sam)", "8 = 3 landed + 1 skipped (sam) + 4 to go"},
		{"stopped", "3 landed · 1 landed already · 1 skipped (sam) · 1 did not land · 1 unclear", "8 = 3 landed + 1 landed already + 1 skipped (sam) + 1 did not land + 1 unclear, checking 40s + 1 to go"},
		{"done", "4 landed · 1 landed already · 1 skipped (sam) · 1 did not land · 1 unclear", "8 = 4 landed + 1 landed already + 1 skipped (sam) + 1 did not land + 1 unclear, checking 40s"},
	} {
		goOn(t, r)
		now := time.Now()
		r.since = since{Checking: 1, NextCheck: now.Add(40 * time.Second)}
		sum, tally := r.Sum(now).String(), Account{Record: r.Record, Items: r.Items}.Tally().String()
		if !r.Over() || string(r.Record.State) != want.state || tally != want.tally || sum != want.sum {
			t.Fatalf("%s (%s): %s\n%s", r.Record.State, r.Record.Why, tally, sum)
		}
		r.GoOn()
	}
	if first := r.Exceptions()[0]; first.Came != ledger.CameUnclear || !Line("retry", first).Grave {
		t.Errorf("what needs a look is not first: %+v", first)
	}
}

// A row whose downstream wants a pause stops the run, and has its turn when the run goes on.
func TestARunTakesUpAgainWhatItsDownstreamPutOff(t *testing.T) {
	store, slow, sent := ledgertest.NewMemory(time.Now, nil), true, map[int]int{}
	r := New(store, ledger.DecisionRun{Verb: "retry", Actor: vera, CreatedAt: time.Now()}, items(4), func(_ context.Context, it ledger.RunItem, _ string) Outcome {
		if it.N == 1 && slow {
			return came("", ledger.Operation{}, &ledger.RefusedError{Verb: "retry", Code: "throttled", Why: "stripe asked to wait 30 s"})
		}
		sent[it.N]++
		return Outcome{Came: ledger.CameLanded}
	})
	goOn(t, r)
	sum := r.Sum(time.Now()).String()
	need.Must(t, r.Record.State == ledger.RunStopped && r.Record.Why == "stripe asked to wait 30 s" && sum == "4 = 1 landed + 1 put off + 2 to go", "%s: %s\n%s", r.Record.State, r.Record.Why, sum)
	slow = false
	for range 2 { // the first three are looked at
		r.GoOn()
		goOn(t, r)
	}
	need.Must(t, r.Record.State == ledger.RunDone && len(sent) == 4 && sent[1] == 1, "%s, sent %v", r.Record.State, sent)
}

// refusing keeps nothing.
type refusing struct{ *ledgertest.Memory }

func (refusing) Run(context.Context, ledger.DecisionRun, []ledger.RunItem) (ledger.DecisionRun, bool, error) {
	return ledger.DecisionRun{}, false, errors.New("disk full")
}

func TestNothingIsDecidedBeforeTheRunIsWrittenDown(t *testing.T) {
	did := 0
	r := New(refusing{}, ledger.DecisionRun{Verb: "deny", Actor: vera}, items(5), func(context.Context, ledger.RunItem, string) Outcome { did++; return Decided(nil) })
	goOn(t, r)
	if did > 0 || !r.Over() || r.Err() == nil {
		t.Errorf("%d were decided, %v", did, r.Err())
	}
}

// world is a ledger with rows that are proven not to have landed, and an other side
// that counts what reaches it. Its engine does what a real one does with the ledger,
// and can be killed between any two steps.
type world struct {
	*rapid.T
	s      *ledgertest.Memory
	clock  *ledgertest.Clock
	sends  map[string]int
	killAt int // calls until the process dies
}

// killed is what a process dies of.
type killed struct{}

func (w *world) point() {
	if w.killAt--; w.killAt == 0 {
		panic(killed{})
	}
}

func (w *world) ok(err error) {
	need.OK(w, err)
}

func (w *world) Retry(ctx context.Context, q reconcile.RetryRequest) (reconcile.RetryResult, error) {
	w.point()
	attempt := ledger.DeriveID(q.ChangeID, "attempt")
	rec, err := w.s.Read(ctx, ledger.Locator{ID: q.ID})
	w.ok(err)
	if a := rec.Attempt(attempt); a != nil {
		return reconcile.RetryResult{Did: reconcile.DidSend, Operation: rec.Operation, Attempt: *a}, nil
	}
	applied, err := ledger.Allow(ctx, w.s, ledger.AllowRequest{ChangeID: q.ChangeID, AllowID: ledger.DeriveID(q.ChangeID, "allow"), OperationID: q.ID, Version: q.Version, Basis: q.Basis,
		Sender: "http", KeyWorks: true, Actor: q.Actor, Reason: q.Reason, ExpiresAt: w.clock.Now().Add(time.Hour), AttemptID: attempt, TokenSent: true, Deadline: 30 * time.Second})
	if err != nil {
		return reconcile.RetryResult{}, err
	}
	w.point()
	w.sends[q.ID]++
	w.point()
	settle := ledger.SettleRequest{ChangeID: q.ChangeID + "s", AttemptID: attempt, Outcome: ledger.OutcomeCommitted, Actor: ledger.Actor{Name: "auto:h", Machine: true}, Status: -1}
	if rapid.IntRange(0, 9).Draw(w.T, "answer") == 0 {
		settle.Outcome, settle.ErrorClass, settle.Error = ledger.OutcomeUncertain, ledger.ClassTimeout, "no answer"
	}
	settled, err := ledger.Settle(ctx, w.s, settle)
	w.ok(err)
	w.point()
	return reconcile.RetryResult{Did: reconcile.DidSend, Operation: applied.After, Attempt: settled.Attempt}, nil
}

// row is an operation that was in doubt and is proven not to have landed.
func (w *world) row(n int) ledger.RunItem {
	ctx, id := context.Background(), fmt.Sprintf("op-%02d", n)
	machine := ledger.Actor{Name: "billing", Machine: true}
	res, err := ledger.Begin(ctx, w.s, ledger.BeginRequest{ChangeID: id + "b", OperationID: id, AttemptID: id + "a", Kind: "card.charge", Key: id, Token: "t" + id,
		Fingerprint: id, Input: []byte(`{}`), Sender: "http", TokenSent: true, Deadline: time.Minute, Actor: machine})
	w.ok(err)
	_, err = ledger.Settle(ctx, w.s, ledger.SettleRequest{ChangeID: id + "s", AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Error: "lost", Status: -1, Actor: machine})
	w.ok(err)
	w.clock.Advance(time.Second)
	rec, err := w.s.Read(ctx, ledger.Locator{ID: id})
	w.ok(err)
	applied, err := ledger.Observe(ctx, w.s, ledger.Observation{ChangeID: id + "o", Version: rec.Operation.Version, Settles: true, Actor: ledger.Actor{Name: ledger.ActorChecks, Machine: true},
		Read: ledger.Read{ID: id + "r", OperationID: id, BeganAt: w.clock.Now(), EndedAt: w.clock.Now(), Verdict: ledger.NotThere, Reason: "none", Digest: "p"}})
	w.ok(err)
	return ledger.RunItem{OperationID: id, Version: applied.After.Version, Kind: "card.charge", Title: id, Basis: ledger.BasisProof, Request: "shown"}
}

// drive carries the run on until it stops by itself or its process dies.
func (w *world) drive(r *Run) (died bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(killed); !ok {
				panic(p)
			}
			died = true
		}
	}()
	for work := r.Next(); work != nil; work = r.Next() {
		w.point()
		res := work(context.Background())
		w.point()
		r.Take(res)
		if rapid.IntRange(0, 19).Draw(w.T, "meanwhile") == 0 {
			w.elsewhere(r.Record)
		}
	}
	return false
}

// elsewhere is what other persons do meanwhile.
func (w *world) elsewhere(run ledger.DecisionRun) {
	ctx := context.Background()
	id := fmt.Sprintf("op-%02d", rapid.IntRange(0, 11).Draw(w.T, "row"))
	switch rapid.IntRange(0, 3).Draw(w.T, "act") {
	case 0:
		w.ok(Halt(ctx, w.s, run, sam, "", false))
	case 1:
		w.ok(w.s.Hold(ctx, ledger.Hold{Scope: "kind:card.charge", Actor: sam, Reason: "stop", ChangeID: ledger.NewID()}))
	default:
		rec, err := w.s.Read(ctx, ledger.Locator{ID: id})
		w.ok(err)
		verb := rapid.SampledFrom([]ledger.Verb{ledger.VerbPark, ledger.VerbAbandon}).Draw(w.T, "verb")
		_, _ = ledger.Decide(ctx, w.s, ledger.Decision{ChangeID: ledger.NewID(), ID: id, Version: rec.Operation.Version, Verb: verb, Reason: "mine", Actor: sam, Until: w.clock.Now().Add(time.Hour)})
	}
}

// Over random kills, holds, pauses and other persons' acts each frozen row is sent at
// most once, and accounted for exactly once.
func TestI3_I10_EachRowOfARunIsSentAtMostOnce(t *testing.T) {
	kills, all := 0, map[ledger.Came]int{}
	rapid.Check(t, func(rt *rapid.T) {
		clock := ledgertest.NewClock()
		w := &world{T: rt, s: ledgertest.NewMemory(clock.Now, clock.Steady), clock: clock, sends: map[string]int{}}
		rt.Cleanup(func() { need.OK(rt, w.s.Close()) })
		var set []ledger.RunItem
		for n := range 12 {
			set = append(set, w.row(n))
		}
		hands := func(a ledger.Actor) Hands { return Hands{Store: w.s, Engine: w, Actor: a} }
		record := ledger.DecisionRun{ID: "run", Verb: "retry", Actor: vera, CreatedAt: clock.Now(), Terms: ledger.RunTerms{Reason: "outage over"}}
		r := New(w.s, record, slices.Clone(set), hands(vera).Step(record))
		for turn := 0; ; turn++ {
			if turn > 200 {
				rt.Fatalf("it never ends: %+v", r.Record)
			}
			w.killAt = rapid.IntRange(1, 40).Draw(rt, "kill at")
			if w.drive(r) {
				kills++
			}
			w.killAt = 0
			clock.Advance(time.Minute) // leases and deadlines run out
			_, err := w.s.Expire(rt.Context(), 99)
			w.ok(err)
			w.ok(w.s.LiftHold(rt.Context(), ledger.Lift{Scope: "kind:card.charge", Actor: sam, Reason: "over", ChangeID: ledger.NewID()}))
			runs, err := w.s.Runs(rt.Context(), ledger.RunQuery{ID: "run"})
			w.ok(err)
			if len(runs) == 0 { // it died before the run was written down
				r = New(w.s, record, slices.Clone(set), hands(vera).Step(record))
				continue
			}
			if runs[0].State == ledger.RunDone {
				break
			}
			who := rapid.SampledFrom([]ledger.Actor{vera, sam}).Draw(rt, "goes on")
			r = Resume(w.s, runs[0], who, hands(who).Step(runs[0]))
		}
		_, kept, err := w.s.Account(rt.Context(), "run")
		w.ok(err)
		for n, it := range kept {
			if all[it.Came]++; it.OperationID != set[n].OperationID || it.Came == "" || it.Came == ledger.CameHeld {
				rt.Fatalf("forgotten: %+v", it)
			}
			sent := w.sends[it.OperationID]
			if sent > 1 || it.Came == ledger.CameLanded && sent != 1 || (it.Came == ledger.CameMoved || it.Came == ledger.CameSkipped) && sent != 0 {
				rt.Fatalf("%s was sent %d times", it.Title, sent)
			}
			need.Must(rt, it.Came != ledger.CameMoved || it.By == "sam", "moved by %q", it.By)
		}
	})
	for _, c := range []ledger.Came{ledger.CameLanded, ledger.CameUnclear, ledger.CameMoved} {
		need.That(t, all[c] != 0, "none came to %s: %v", c, all)
	}
	need.That(t, kills != 0, "no process was killed")
}

// A run that another process drives is not driven from here, and the same command
// again carries on what was broken off, with the versions that it had seen.
func TestI10_ARunThatWasBrokenOffGoesOn(t *testing.T) {
	clock := ledgertest.NewClock()
	store := ledgertest.NewMemory(clock.Now, clock.Steady)
	var did []string
	run := func(seen int64) *Run {
		set := items(3)
		for i := range set {
			set[i].Version += seen
		}
		return New(store, ledger.DecisionRun{IdempotencyKey: "k", Verb: "note", Actor: vera, CreatedAt: clock.Now()}, set, func(_ context.Context, it ledger.RunItem, change string) Outcome {
			did = append(did, fmt.Sprint(it.OperationID, it.Version))
			return Decided(nil)
		})
	}
	first := run(0)
	for range 3 { // it is written down, two are done, and then it was killed
		first.Take(first.Next()(t.Context()))
	}
	short, cancel := context.WithTimeout(t.Context(), leasePoll/2)
	defer cancel()
	var driven *ledger.DrivenError
	if err := run(7).Begin(short); !errors.As(err, &driven) || driven.Name != "vera" {
		t.Fatalf("two drive it: %v", err)
	}
	other := Resume(store, first.Record, sam, nil)
	if other.Take(other.Next()(short)); !other.Over() || other.Next() != nil || !errors.As(other.Err(), &driven) {
		t.Fatalf("it tries for ever: %v", other.Err())
	}
	need.OK(t, other.GiveUp(t.Context(), "the command ended")) // and leaves the one that drives it alone
	clock.Advance(ledger.RunLease)
	again := run(7)
	if err := again.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	goOn(t, again)
	if got := strings.Join(did, " "); got != "a2 b2 c2" || again.Record.ID != first.Record.ID || again.Record.State != ledger.RunDone {
		t.Errorf("it did %q: %+v", got, again.Record)
	}
	late := Resume(store, again.Record, sam, nil)
	if late.Take(late.Next()(t.Context())); late.Err() == nil || !strings.Contains(late.Err().Error(), "by vera") {
		t.Errorf("going on with what is done does not name who did it: %v", late.Err())
	}
}

// A send that is under way when its command is interrupted is waited for, and meanwhile
// no one else is told that the run was broken off. Then another may go on with it at once.
func TestI3_AnInterruptedRunIsDrivenUntilItsSendEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := ledgertest.NewMemory(time.Now, nil)
		ctx, interrupt := context.WithCancel(t.Context())
		r := New(store, ledger.DecisionRun{Verb: "retry", Actor: vera, CreatedAt: time.Now()}, items(2), func(context.Context, ledger.RunItem, string) Outcome {
			interrupt()
			time.Sleep(3 * ledger.RunLease)
			runs := need.Get(store.Runs(t.Context(), ledger.RunQuery{Limit: 1}))(t)
			need.Equal(t, runs[0].DrivenBy(time.Now()), "vera")
			return Outcome{Came: ledger.CameLanded}
		})
		for range 2 { // it is written down, and one is sent
			r.Take(r.Next()(ctx))
		}
		need.OK(t, r.Err())
		need.OK(t, r.GiveUp(t.Context(), "the command ended"))
		ended := time.Now()
		other := Resume(store, need.Get(store.Runs(t.Context(), ledger.RunQuery{Limit: 1}))(t)[0], sam, nil)
		other.Take(other.Next()(t.Context()))
		need.Must(t, other.Err() == nil && time.Since(ended) == 0, "it goes on after %s: %v", time.Since(ended), other.Err())
	})
}

// A driver that stood still for longer than its lease stops, and knows what became of the
// rows that another has driven meanwhile.
func TestI3_ADriverThatStoodStillKnowsWhatAnotherDid(t *testing.T) {
	clock := ledgertest.NewClock()
	store := ledgertest.NewMemory(clock.Now, clock.Steady)
	landed := func(context.Context, ledger.RunItem, string) Outcome { return Outcome{Came: ledger.CameLanded} }
	var r *Run
	r = New(store, ledger.DecisionRun{Verb: "retry", Actor: vera, CreatedAt: clock.Now()}, items(3), func(_ context.Context, it ledger.RunItem, _ string) Outcome {
		clock.Advance(ledger.RunLease + time.Second)
		goOn(t, Resume(store, r.Record, sam, landed))
		return Outcome{Came: ledger.CameBroken, Word: "its lease was lost"}
	})
	goOn(t, r)
	var driven *ledger.DrivenError
	need.Must(t, r.Over() && errors.As(r.Err(), &driven) && driven.Name == "sam", "%v", r.Err())
	for _, it := range r.Items {
		need.Equal(t, it.Came, ledger.CameLanded)
	}
}

// A run that a person ended sends nothing more, though its driver has not heard of it yet.
func TestI5_AnEndedRunSendsNothingMore(t *testing.T) {
	clock := ledgertest.NewClock()
	store := ledgertest.NewMemory(clock.Now, clock.Steady)
	sent := 0
	r := New(store, ledger.DecisionRun{Verb: "retry", Actor: vera, CreatedAt: clock.Now()}, items(3), func(context.Context, ledger.RunItem, string) Outcome {
		sent++
		return Outcome{Came: ledger.CameLanded}
	})
	for range 2 { // it is written down, and one is sent
		r.Take(r.Next()(t.Context()))
	}
	work := r.Next()
	need.OK(t, Halt(t.Context(), store, r.Record, sam, "stripe said stop", true))
	r.Take(work(t.Context()))
	need.That(t, sent == 1 && r.Over() && r.Err() == nil && r.Record.Why == "stopped by sam: stripe said stop", "%d sent, %+v, %v", sent, r.Record, r.Err())
}

// A run without operations, and the rehearsal of one, come to an end: each step that
// may begin is one of an item.
func TestARunWithNothingToDoIsOver(t *testing.T) {
	item := ledger.RunItem{OperationID: "1", Version: 1}
	var stepped int
	step := func(context.Context, ledger.RunItem, string) Outcome {
		stepped++
		return Outcome{Came: ledger.CameDecided}
	}
	for _, items := range [][]ledger.RunItem{nil, {item}} {
		stepped = 0
		r := New(nil, ledger.DecisionRun{Verb: "note", Actor: ledger.Actor{Name: "maya"}}, items, step)
		r.Unkept = len(items) > 0
		need.OK(t, r.Begin(t.Context()))
		for range 5 {
			if work := r.Next(); work != nil {
				r.Take(work(t.Context()))
			}
		}
		if !r.Over() || stepped != len(items) {
			t.Errorf("%d items: %d steps, over %t", len(items), stepped, r.Over())
		}
	}
}

// What a refused connection kept back is not told of as sent.
func TestWhatNeverLeftIsNotSaidToBeSent(t *testing.T) {
	for state, sent := range map[ledger.State]string{ledger.Uncertain: "sent, no clear answer: in doubt again", ledger.Failed: "sent, it did not land"} {
		r := result(reconcile.DidSend, ledger.Operation{State: state})
		r.Attempt.Error = "connection refused"
		word, _ := Words(r)
		need.Equal(t, word.String(), sent)
		r.Attempt.Proof = ledger.NeverSent
		word, own := Words(r)
		need.Equal(t, word.String()+own.String(), "nothing was sent, it is as before: connection refused")
		need.Equal(t, Sent(r, nil).Came, ledger.CameNever)
	}
}
