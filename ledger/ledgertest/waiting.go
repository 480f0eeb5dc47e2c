package ledgertest

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// waiting follows answers that are none yet, and answers that were not delivered.
func waiting(t *testing.T, open Open) {
	for _, part := range []struct {
		name string
		run  func(*desk)
	}{
		{"NotAnAnswerYet", notYet},
		{"I8_AWaitIsTold", waitIsTold},
		{"I10_AWaitRunsOut", waitRunsOut},
		{"OneOfManyGoesOn", oneGoesOn},
		{"Undelivered", undelivered},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(newDesk(t, open)) })
	}
}

func (d *desk) suspend(a ledger.Attempt, awaits string) ledger.SuspendRequest {
	return ledger.SuspendRequest{ChangeID: d.id("change"), AttemptID: a.ID, Awaits: awaits, For: time.Hour, Reason: "the task is working", Actor: billing}
}

// awaited finds what waits for this, or "".
func (d *desk) awaited(scope, awaits string) string {
	d.Helper()
	rec, err := d.s.Read(ctx, ledger.Locator{Scope: scope, Awaits: awaits})
	if errors.Is(err, ledger.ErrNotFound) {
		return ""
	}
	d.ok(err)
	return rec.Operation.Key
}

func notYet(d *desk) {
	scope := func(r *ledger.BeginRequest) { r.Scope = "server" }
	res := d.begun("k", scope)
	d.begun("other", scope)
	applied := need.Get(ledger.Suspend(ctx, d.s, d.suspend(res.Attempt, "task:7")))(d)
	o := d.read(res.Operation.ID)
	if until := d.clock.Now().Add(time.Hour); !o.Operation.DeadlineAt.Equal(until) || !o.Attempts[0].DeadlineAt.Equal(until) {
		d.Fatalf("the deadline is %s, its attempt's %s, want %s", o.Operation.DeadlineAt, o.Attempts[0].DeadlineAt, until)
	}
	if o.Operation.Version != res.Operation.Version || applied.After.Awaits != "task:7" || o.Operation.Awaits != "task:7" {
		d.Fatalf("version %d waits for %q, want %d and task:7", o.Operation.Version, o.Operation.Awaits, res.Operation.Version)
	}
	for at, want := range map[[2]string]string{{"server", "task:7"}: "k", {"server", "task:8"}: "", {"", "task:7"}: ""} {
		if got := d.awaited(at[0], at[1]); got != want {
			d.Fatalf("what waits for %s in %q is %q, want %q", at[1], at[0], got, want)
		}
	}
	d.clock.Advance(2 * time.Minute) // past its first deadline
	d.want(d.read(o.Operation.ID).Operation, ledger.Pending)
	if n, err := d.s.Expire(ctx, 10); n != 1 || err != nil { // the other one
		d.Fatalf("expired %d (%v), want 1", n, err)
	}
	done := d.settle(res.Attempt.ID, ledger.OutcomeCommitted, withReceipt("pi_1"))
	need.Must(d, done.Awaits == "" && d.awaited("server", "task:7") == "",
		"it still waits for %q after the answer came", done.Awaits)
	if _, err := ledger.Suspend(ctx, d.s, d.suspend(res.Attempt, "task:7")); !errors.Is(err, ledger.ErrMoved) {
		d.Fatalf("waiting on after the answer: %v, want a MovedError", err)
	}
}

func waitIsTold(d *desk) {
	res := d.begun("k")
	req := d.suspend(res.Attempt, "task:7")
	for range 2 {
		need.Get(ledger.Suspend(ctx, d.s, req))(d)
	}
	again := d.suspend(res.Attempt, "input:8")
	again.Result = json.RawMessage(`{"resultType":"input_required"}`)
	need.Get(ledger.Suspend(ctx, d.s, again))(d)
	if a := d.read(res.Operation.ID).Attempts[0]; string(a.Result) != string(again.Result) || a.Outcome != "" {
		d.Fatalf("what was said meanwhile is kept as %q, the outcome %q", a.Result, a.Outcome)
	}
	evs := d.events(res.Operation.ID)
	need.Must(d, len(evs) == 3, "%d events, want begin and two waits: %+v", len(evs), evs)
	for i, id := range []string{req.ChangeID, again.ChangeID} {
		if e := evs[i+1]; e.ID != id || e.Verb != "wait" || e.From != ledger.Pending || e.To != ledger.Pending || e.Version != 1 || e.Actor != billing || e.Reason != "the task is working" {
			d.Fatalf("event %+v", e)
		}
	}
	if o := d.read(res.Operation.ID).Operation; o.Awaits != "input:8" || o.Reason != "the task is working" || !o.UpdatedAt.Equal(d.clock.Now()) {
		d.Fatalf("it waits for %q (%s, %s)", o.Awaits, o.Reason, o.UpdatedAt)
	}
}

func waitRunsOut(d *desk) {
	res := d.begun("k")
	need.Get(ledger.Suspend(ctx, d.s, d.suspend(res.Attempt, "task:7")))(d)
	d.clock.Advance(61 * time.Minute)
	if n, err := d.s.Expire(ctx, 10); n != 1 || err != nil {
		d.Fatalf("expired %d (%v), want 1", n, err)
	}
	o := d.read(res.Operation.ID).Operation
	d.want(o, ledger.Uncertain)
	need.Must(d, o.Awaits == "" && d.awaited("", "task:7") == "", "it still waits for %q", o.Awaits)
	second := d.retry(o, ledger.BasisRiskAccepted)
	need.Must(d, second.After.Awaits == "", "the next attempt waits for %q", second.After.Awaits)
}

func oneGoesOn(d *desk) {
	res := d.begun("k")
	need.Get(ledger.Suspend(ctx, d.s, d.suspend(res.Attempt, "input:1")))(d)
	requests := make([]ledger.SuspendRequest, 8)
	for i := range requests {
		requests[i] = d.suspend(res.Attempt, "going on")
		requests[i].Instead = "input:1"
	}
	answers := together(8, func(i int) bool {
		_, err := ledger.Suspend(ctx, d.s, requests[i])
		need.That(d, err == nil || errors.Is(err, ledger.ErrMoved), "suspend: %v", err)
		return err == nil
	})
	need.Must(d, answers[true] == 1, "%d of eight went on with what one attempt awaited", answers[true])
}

func undelivered(d *desk) {
	asked := func(r *ledger.BeginRequest) { r.AwaitsDelivery = true }
	res := d.begun("k", asked)
	d.ok(ledger.Deliver(ctx, d.s, res.Operation.ID)) // there is nothing to deliver yet
	o := d.settle(res.Attempt.ID, ledger.OutcomeUncertain)
	need.Must(d, res.Operation.Undelivered && o.Undelivered && d.read(o.ID).Operation.Undelivered,
		"an answer that nobody was given counts as delivered")
	events := len(d.events(""))
	for range 2 {
		d.ok(ledger.Deliver(ctx, d.s, o.ID))
	}
	if now := d.read(o.ID).Operation; now.Undelivered || now.Version != o.Version || !now.UpdatedAt.Equal(o.UpdatedAt) || len(d.events("")) != events {
		d.Fatalf("after the delivery: undelivered %v at version %d, %d events more; want nothing else to move", now.Undelivered, now.Version, len(d.events(""))-events)
	}
	o = d.decide(o, ledger.VerbConfirm)
	need.Must(d, !o.Undelivered, "a decision took the delivery back")
	// Another attempt is another answer.
	d.allow(d.doubt("k2"), ledger.BasisRiskAccepted)
	if res := d.begun("k2", asked); !res.Operation.Undelivered || !d.read(res.Operation.ID).Operation.Undelivered {
		d.Fatalf("the answer of the second attempt counts as delivered")
	}
	if res := d.begun("k3"); res.Operation.Undelivered {
		d.Fatalf("a caller that never says so is waited for")
	}
	if err := ledger.Deliver(ctx, d.s, "nobody"); !errors.Is(err, ledger.ErrNotFound) {
		d.Fatalf("delivery of nothing: %v", err)
	}
}

// together with an observation the next read is scheduled.
func oneWrite(t *testing.T, open Open) {
	d := newDesk(t, open)
	o := d.doubt("k")
	look := func(v ledger.Verdict, receipts ...string) ledger.Observation {
		d.Helper()
		ob := d.observation(o, v, receipts...)
		ob.Pricing = &ledger.Pricing{OperationID: o.ID, Digest: "p1", Rank: 7, DecideAt: d.clock.Now().Add(time.Hour), ReadAt: d.clock.Now().Add(time.Minute), Reads: 1}
		return ob
	}
	due := func() int {
		d.Helper()
		rows := need.Get(d.s.Due(ctx, "", d.clock.Now(), 10))(d)
		return len(rows)
	}
	first := look(ledger.CannotTell)
	for range 2 { // its commit may have been in doubt
		need.Get(ledger.Observe(ctx, d.s, first))(d)
	}
	rec := d.read(o.ID)
	if rec.Pricing != *first.Pricing || rec.Operation.Version != o.Version || due() != 0 {
		d.Fatalf("priced %+v, version %d, %d due", rec.Pricing, rec.Operation.Version, due())
	}
	d.clock.Advance(time.Minute)
	need.Must(d, due() == 1, "the next read is not due")
	d.want(need.Get(ledger.Observe(ctx, d.s, look(ledger.Landed, "pi_1")))(d).After, ledger.Committed)
	need.Must(d, due() == 0, "settled, and due")
}

// What a check found counts whenever it comes; what it did not find, only while the
// operation is as the check saw it (I7, I9).
func foundLate(t *testing.T, open Open) {
	d := newDesk(t, open)
	observe := func(o ledger.Operation, v ledger.Verdict, receipts ...string) ledger.Operation {
		d.Helper()
		return need.Get(ledger.Observe(ctx, d.s, d.observation(o, v, receipts...)))(d).After
	}
	o := d.doubt("two checks") // of two processes, at the same time
	once := observe(o, ledger.Landed, "pi_1")
	again := observe(o, ledger.Landed, "pi_1")
	d.want(again, ledger.Committed)
	need.Must(d, again.Version == once.Version && again.Conflict == ledger.NoConflict && again.Effects == 1, "found by two checks: %+v", again)

	o = d.doubt("moved")
	o2 := d.decide(d.decide(o, ledger.VerbDeny), ledger.VerbUndo)
	d.want(observe(o, ledger.NotThere), ledger.Uncertain)
	found := observe(o, ledger.Landed, "pi_2")
	need.Must(d, found.State == ledger.Uncertain && found.Verdict == ledger.Landed && found.Version == o2.Version+1, "after an undo a person settles: %+v", found)

	o = d.doubt("denied")
	d.decide(o, ledger.VerbDeny)
	denied := observe(o, ledger.NotThere)
	need.Must(d, denied.State == ledger.Failed && denied.Verdict != ledger.NotThere, "absence at an old version proves what a person said: %+v", denied)
	late := observe(o, ledger.Landed, "pi_3")
	need.Must(d, late.State == ledger.Failed && late.Conflict == ledger.ConflictDisputed, "found late: %+v", late)

	// The first attempt answers late, the second one's sender dies: whoever asks before anybody
	// has written its deadline down is told that it landed.
	first := d.begun("answered late").Attempt.ID
	o = d.allow(d.settle(first, ledger.OutcomeUncertain), ledger.BasisRiskAccepted)
	d.begun("answered late")
	d.want(d.settle(first, ledger.OutcomeCommitted), ledger.Pending)
	d.clock.Advance(time.Hour)
	asked := d.begin("answered late")
	need.Must(d, asked.Answer == ledger.AnswerFinished, "told %s", asked.Answer)
	d.want(asked.Operation, ledger.Committed)
	d.want(d.read(o.ID).Operation, ledger.Committed)
}

// looks are the times at which what is settled is looked for again.
func looks(t *testing.T, open Open) {
	d := newDesk(t, open)
	due := func(after time.Duration, want ...string) {
		d.Helper()
		d.clock.Advance(after)
		rows := need.Get(d.s.Due(ctx, "", d.clock.Now(), 10))(d)
		var got []string
		for _, r := range rows {
			got = append(got, d.read(r.ID).Operation.Key)
		}
		need.Must(d, slices.Equal(sorted(got), want), "due are %v, want %v", got, want)
	}
	again := ledger.Looks{Check: true}
	asks := func(dec *ledger.Decision) { dec.Looks = again }
	look := func(o ledger.Operation, v ledger.Verdict, failed bool, receipts ...string) ledger.Operation {
		ob := d.observation(o, v, receipts...)
		ob.Looks, ob.Failed = again, failed
		return need.Get(ledger.Observe(ctx, d.s, ob))(d).After
	}
	denied := d.decide(d.doubt("denied"), ledger.VerbDeny, asks)
	confirmed := d.decide(d.doubt("confirmed"), ledger.VerbConfirm, asks)
	d.decide(d.doubt("dropped"), ledger.VerbAbandon)
	d.decide(denied, ledger.VerbNote) // leaves it scheduled
	due(0)
	due(time.Minute, "confirmed", "denied")
	look(denied, ledger.CannotTell, false)
	look(confirmed, ledger.CannotTell, true)
	due(0)
	due(time.Minute, "confirmed") // its look could not be made
	look(confirmed, ledger.CannotTell, true)
	due(time.Minute)
	due(time.Minute, "confirmed") // after a longer pause
	look(confirmed, ledger.CannotTell, false)
	due(6*time.Minute, "confirmed", "denied")
	look(confirmed, ledger.Landed, false, "pi_9")
	o := look(denied, ledger.Landed, false, "pi_1")
	need.Must(d, o.State == ledger.Failed && o.Conflict == ledger.ConflictDisputed,
		"found after all, it is %s with conflict %q, want the denial disputed", o.State, o.Conflict)
	due(50*time.Minute, "denied") // the person was right about the other one
	look(o, ledger.Twice, false, "pi_1", "pi_2")
	due(22 * time.Hour)
	due(2*time.Hour, "denied")
	look(o, ledger.CannotTell, true)
	due(2*time.Hour, "denied") // no other look follows, so this one is tried
	look(o, ledger.CannotTell, true)
	due(24*time.Hour, "denied")
	look(o, ledger.CannotTell, true)
	due(48 * time.Hour)          // for a day
	again.Lands = 48 * time.Hour // its effect may come so late
	late := d.decide(d.doubt("late"), ledger.VerbDeny, asks)
	due(25*time.Hour, "late")
	look(late, ledger.CannotTell, false)
	due(23 * time.Hour)
	due(2*time.Minute, "late")
	look(late, ledger.CannotTell, false)
	due(48 * time.Hour)
	again.Lands = 0
	undone := d.decide(d.decide(d.doubt("undone"), ledger.VerbDeny, asks), ledger.VerbUndo)
	due(2*time.Hour, "undone") // in doubt again
	d.decide(undone, ledger.VerbDeny)
	due(2 * time.Hour)

	// Its own answer says that it landed, beside a doubt; and that it was refused.
	sent := func(key string, basis ledger.Basis, outcome ledger.Outcome, mod func(*ledger.SettleRequest)) {
		first := d.doubt(key)
		need.Get(ledger.Allow(ctx, d.s, d.grantRequest(first, basis)))(d)
		d.settle(d.begun(key).Attempt.ID, outcome, func(r *ledger.SettleRequest) {
			r.Looks = func(string) ledger.Looks { return again }
			mod(r)
		})
	}
	sent("beside", ledger.BasisRiskAccepted, ledger.OutcomeCommitted, func(*ledger.SettleRequest) {})
	refused := func(key string, assumed bool) {
		d.settle(d.begun(key).Attempt.ID, ledger.OutcomeFailed, func(r *ledger.SettleRequest) {
			r.Assumed, r.Looks = assumed, func(string) ledger.Looks { return again }
		})
	}
	refused("assumed", true)
	refused("said", false)
	due(time.Minute, "assumed", "beside")
}

// records reads several operations like Read does each.
func records(t *testing.T, open Open) {
	d := newDesk(t, open)
	plain, read, again, same := d.doubt("plain"), d.doubt("read"), d.doubt("again"), d.doubt("same")
	d.observe(read, ledger.NotThere)
	d.clock.Advance(time.Hour)
	d.retry(again, ledger.BasisRiskAccepted)
	ids := []string{again.ID, "nobody", plain.ID, "", read.ID, same.ID}
	recs := need.Get(d.s.Records(ctx, ids))(d)
	need.Must(d, len(recs) == 4, "%d records, want those of the four that are there", len(recs))
	for i, id := range []string{again.ID, plain.ID, read.ID, same.ID} {
		want := d.read(id)
		for j := range want.Reads {
			want.Reads[j].Evidence = nil
		}
		need.Must(d, reflect.DeepEqual(recs[i], want), "record %d is\n%+v\nwant\n%+v", i, recs[i], want)
	}
	need.Equal(d, len(need.Get(d.s.Records(ctx, nil))(d)), 0, "records of none")
}
