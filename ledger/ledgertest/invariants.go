package ledgertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// invariants holds a store to the numbered promises, by name.
func invariants(t *testing.T, open Open) {
	for _, part := range []struct {
		name string
		run  func(*desk)
	}{
		{"I1_TheAttemptIsRecordedBeforeItIsSent", recordedFirst},
		{"I2_ARefusedRetryKeepsTheDoubt", keptDoubt},
		{"I2_FailedNeedsProof", failedNeedsProof},
		{"I3_OneLiveAttempt", oneLive},
		{"I3_AHeartbeatEndsWithTheDeadline", heartbeat},
		{"I3_OnlyTheNamedAttemptIsSettled", namedAttempt},
		{"I4_SameKeySameToken", sameToken},
		{"I4_SameKeyOtherInput", otherInput},
		{"I3_TheGateHolds", gateHolds},
		{"I3_TheGateOfCallers", gateOfCallers},
		{"I3_TheGateHoldsItsOwn", gateHoldsItsOwn},
		{"I3_TheGateOfASafeOne", gateOfASafeOne},
		{"I3_TheGateOfOneThatReturns", gateOfOneThatReturns},
		{"I9_WhatPassesTheGateIsRaised", gatePasses},
		{"I4_AnInputIsOver", inputIsOver},
		{"I4_AFinishedKeyRunsOut", keyRunsOut},
		{"I4_AFinishedKeyIsGivenUpOnceOvertaken", keySuperseded},
		{"I7_AStaleDecisionIsRefused", staleDecision},
		{"I7_AbsenceIsBoundToItsVersion", staleRead},
		{"I7_QuietThingsDoNotMoveTheVersion", quietThings},
		{"I8_EveryChangeSaysWhoWhenAndWhy", told},
		{"I9_ALateAnswerSettlesTheDoubt", lateAnswer},
		{"I9_ALateAnswerContradictsADecision", lateContradiction},
		{"I9_ASecondReceiptIsADuplicate", secondReceipt},
		{"I9_AnAcknowledgementCoversWhatItSaw", acknowledged},
		{"I9_WhatIsTrueSettlesAConflict", dealtWith},
		{"I9_AnUndoTakesBackWhatThePersonSaid", undoneClaim},
		{"I2_AbandonedAndUndone", abandonedAndUndone},
		{"I9_AbandonedAndFound", abandonedAndFound},
		{"I10_AnAttemptNobodySettlesIsInDoubt", orphan},
		{"I12_AfterUndoOnlyAPersonSettles", afterUndo},
		{"I12_AnUndoneAnswerDoesNotComeBack", undoneAnswer},
		{"I12_NoneFoundAfterLandedIsNoProof", notThereNow},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(newDesk(t, open)) })
	}
}

func recordedFirst(d *desk) {
	res := d.begun("k")
	rec := d.read(res.Operation.ID)
	d.want(rec.Operation, ledger.Pending)
	need.Must(d, len(rec.Attempts) == 1 && rec.Attempts[0].ID == res.Attempt.ID && rec.Attempts[0].Outcome == "",
		"attempts are %+v, want the one that was begun, open", rec.Attempts)
	a := rec.Attempts[0]
	if rec.Operation.LiveAttempt != a.ID || !a.DeadlineAt.Equal(Noon.Add(time.Minute)) || !rec.Operation.DeadlineAt.Equal(a.DeadlineAt) {
		d.Fatalf("live attempt %q until %s, want %q until %s", rec.Operation.LiveAttempt, rec.Operation.DeadlineAt, a.ID, Noon.Add(time.Minute))
	}
	if string(rec.Operation.Input) != `{"amount":42000}` || rec.Operation.Source != (ledger.Source{Pipeline: "billing", Run: "7", Host: "batch-2", PID: 42}) {
		d.Fatalf("what was asked for came back as %s from %+v", rec.Operation.Input, rec.Operation.Source)
	}
}

func keptDoubt(d *desk) {
	o := d.settle(d.retry(d.doubt("k"), ledger.BasisRiskAccepted).Attempt.ID, ledger.OutcomeFailed)
	d.want(o, ledger.Uncertain)
}

func failedNeedsProof(d *desk) {
	a := d.begun("k").Attempt
	for _, proof := range []ledger.Proof{"", ledger.ProofNotThere, "hope"} { // absence is a read's to prove
		_, err := ledger.Settle(ctx, d.s, ledger.SettleRequest{ChangeID: d.id("change"), AttemptID: a.ID, Outcome: ledger.OutcomeFailed, Proof: proof, Actor: billing})
		need.Must(d, err != nil, "a failure with the proof %q was accepted", proof)
	}
	d.want(d.read(a.OperationID).Operation, ledger.Pending)
}

func oneLive(d *desk) {
	o := d.begun("k").Operation
	if res := d.begin("k"); res.Answer != ledger.AnswerInProgress || res.Operation.ID != o.ID {
		d.Fatalf("a second begin was told %s about %s, want in_progress about %s", res.Answer, res.Operation.ID, o.ID)
	}
	for _, basis := range []ledger.Basis{ledger.BasisProof, ledger.BasisKeySafe, ledger.BasisRiskAccepted} {
		if _, err := ledger.Allow(ctx, d.s, d.grantRequest(d.read(o.ID).Operation, basis)); !errors.Is(err, ledger.ErrMoved) {
			d.Fatalf("a permission (%s) while an attempt is in flight: %v, want a MovedError", basis, err)
		}
	}
}

func heartbeat(d *desk) {
	res := d.begun("k")
	d.clock.Advance(30 * time.Second)
	until := need.Get(ledger.Heartbeat(ctx, d.s, res.Attempt.ID, time.Minute))(d)
	if o := d.read(res.Operation.ID).Operation; !o.DeadlineAt.Equal(until) || !until.After(res.Attempt.DeadlineAt) || o.Version != res.Operation.Version {
		d.Fatalf("deadline %s at version %d, want %s at %d", o.DeadlineAt, o.Version, until, res.Operation.Version)
	}
	d.clock.Advance(45 * time.Second) // past the first deadline, not past the new one
	d.want(d.read(res.Operation.ID).Operation, ledger.Pending)
	if n, err := d.s.Expire(ctx, 10); n != 0 || err != nil {
		d.Fatalf("expired %d (%v) although the heartbeat had extended it", n, err)
	}
	d.clock.Advance(time.Minute)
	if _, err := ledger.Heartbeat(ctx, d.s, res.Attempt.ID, time.Minute); !errors.Is(err, ledger.ErrMoved) {
		d.Fatalf("a heartbeat after the deadline: %v, want a MovedError", err)
	}
}

func namedAttempt(d *desk) {
	first := d.begun("k").Attempt
	d.settle(first.ID, ledger.OutcomeUncertain)
	second := d.retry(d.read(first.OperationID).Operation, ledger.BasisRiskAccepted).Attempt
	o := d.settle(first.ID, ledger.OutcomeFailed) // the first one's late answer
	d.want(o, ledger.Pending)
	need.Must(d, o.LiveAttempt == second.ID, "the live attempt is %q, want %q", o.LiveAttempt, second.ID)
	rec := d.read(o.ID)
	if a := rec.Attempt(first.ID); a.Outcome != ledger.OutcomeUncertain || a.LateOutcome != ledger.OutcomeFailed {
		d.Fatalf("the first attempt is %s, late %s; want uncertain, late failed", a.Outcome, a.LateOutcome)
	}
	d.want(d.settle(second.ID, ledger.OutcomeCommitted), ledger.Committed)
}

func sameToken(d *desk) {
	first := d.begun("k")
	d.settle(first.Attempt.ID, ledger.OutcomeFailed)
	again := d.begun("k", func(r *ledger.BeginRequest) { r.Token = "indoubt-OTHER" })
	if again.Operation.ID != first.Operation.ID || again.Operation.Token != first.Operation.Token || again.Operation.Key != first.Operation.Key {
		d.Fatalf("the second attempt has token %s, want %s", again.Operation.Token, first.Operation.Token)
	}
	need.Must(d, again.Attempt.N == 2, "it is attempt %d, want 2", again.Attempt.N)
}

func otherInput(d *desk) {
	other := func(r *ledger.BeginRequest) { r.Fingerprint = "another" }
	o := d.begun("k").Operation
	for _, state := range []string{"pending", "in doubt"} {
		if res := d.begin("k", other); res.Answer != ledger.AnswerKeyReused || res.Operation.ID != o.ID {
			d.Fatalf("while %s: %s, want key_reused", state, res.Answer)
		}
		if state == "pending" {
			d.settle(o.LiveAttempt, ledger.OutcomeUncertain)
		}
	}
	asks := func(r *ledger.BeginRequest) { r.Gate = strings.Repeat("a", 32) }
	d.begun("gated", asks)
	need.Equal(d, d.begin("gated", asks, other).Answer, ledger.AnswerInProgress, "at one gate it is the same, whatever is kept of it")
	for _, mod := range []func(*ledger.BeginRequest){
		func(r *ledger.BeginRequest) { r.Scope, r.Fingerprint = "another scope", "another" },
		func(r *ledger.BeginRequest) { r.Kind, r.Fingerprint = "another.kind", "another" },
	} {
		if res := d.begun("k", mod); res.Operation.ID == o.ID {
			d.Fatalf("a key of another scope or kind found this operation")
		}
	}
}

func keyRunsOut(d *desk) {
	ttl := func(r *ledger.BeginRequest) { r.TTL = time.Hour }
	first := d.begun("k", ttl)
	d.settle(first.Attempt.ID, ledger.OutcomeCommitted, withReceipt("pi_1"))
	if res := d.begin("k", ttl); res.Answer != ledger.AnswerFinished || res.Operation.Receipt() != "pi_1" {
		d.Fatalf("within its time: %s with receipt %q, want finished with pi_1", res.Answer, res.Operation.Receipt())
	}
	d.clock.Advance(2 * time.Hour)
	second := d.begun("k", ttl, func(r *ledger.BeginRequest) { r.Fingerprint = "another" })
	need.Must(d, second.Operation.ID != first.Operation.ID, "after its time the same operation began again")
	if old := d.read(first.Operation.ID).Operation; old.KeyLive || old.State != ledger.Committed {
		d.Fatalf("the old one is %s with key_live %v, want committed without the key", old.State, old.KeyLive)
	}
	rec := need.Get(d.s.Read(ctx, ledger.Locator{Kind: "card.charge", Key: "k"}))(d)
	need.Must(d, rec.Operation.ID == second.Operation.ID,
		"the key finds %s, want %s", rec.Operation.ID, second.Operation.ID)
	d.settle(second.Attempt.ID, ledger.OutcomeUncertain)
	d.clock.Advance(1000 * time.Hour)
	need.Equal(d, d.begin("k", ttl, func(r *ledger.BeginRequest) { r.Fingerprint = "another" }).Answer, ledger.AnswerInDoubt, "only a finished operation gives its key up: in doubt a thousand hours later")
}

func keySuperseded(d *desk) {
	deploy := func(version string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) { r.Target, r.Fingerprint, r.Supersedes = "web", version, true }
	}
	old := d.begun("4.17", deploy("4.17"))
	d.settle(old.Attempt.ID, ledger.OutcomeCommitted)
	need.Equal(d, d.begin("4.17", deploy("4.17")).Answer, ledger.AnswerFinished, "nothing came after it")
	elsewhere := d.begun("4.18 of another", deploy("4.18"), func(r *ledger.BeginRequest) { r.Target = "api" })
	d.settle(elsewhere.Attempt.ID, ledger.OutcomeCommitted)
	never := d.begun("4.18 never sent", deploy("4.18"))
	d.settle(never.Attempt.ID, ledger.OutcomeFailed)
	need.Equal(d, d.begin("4.17", deploy("4.17")).Answer, ledger.AnswerFinished, "what came after it is elsewhere, or had no effect")
	later := d.begun("4.18", deploy("4.18"))
	d.settle(later.Attempt.ID, ledger.OutcomeUncertain) // it may have acted
	need.Equal(d, d.begin("4.17", deploy("4.17"), func(r *ledger.BeginRequest) { r.Supersedes = false }).Answer, ledger.AnswerFinished, "a kind that does not say so")
	need.Equal(d, d.begin("4.17", deploy("other")).Answer, ledger.AnswerKeyReused, "another input under its key")
	back := d.begun("4.17", deploy("4.17"))
	need.Must(d, back.Operation.ID != old.Operation.ID && back.Attempt.N == 1,
		"the rollback is attempt %d of %s, want an operation of its own", back.Attempt.N, back.Operation.ID)
	if o := d.read(old.Operation.ID).Operation; o.KeyLive || o.State != ledger.Committed {
		d.Fatalf("the old one is %s with key_live %v, want committed without the key", o.State, o.KeyLive)
	}
	need.Equal(d, d.begin("4.17", deploy("4.17")).Answer, ledger.AnswerInProgress, "while it rolls back")
	d.settle(back.Attempt.ID, ledger.OutcomeCommitted)
	need.Equal(d, d.begin("4.18", deploy("4.18")).Answer, ledger.AnswerInDoubt, "what is in doubt never gives its key up")
	waits := d.begun("4.19", deploy("4.19"), func(r *ledger.BeginRequest) { r.AwaitsDelivery = true })
	d.settle(waits.Attempt.ID, ledger.OutcomeCommitted)
	after := d.begun("4.20", deploy("4.20"))
	d.settle(after.Attempt.ID, ledger.OutcomeCommitted)
	need.Equal(d, d.begin("4.19", deploy("4.19")).Answer, ledger.AnswerFinished, "its caller was never given the answer")
	d.ok(ledger.Deliver(ctx, d.s, waits.Operation.ID))
	d.begun("4.19", deploy("4.19"))
	abandoned := d.decide(d.doubt("4.21", deploy("4.21")), ledger.VerbAbandon)
	need.Equal(d, d.begin("4.21", deploy("4.21")).Answer, ledger.AnswerRefused, "abandoned, and the last that may have acted")
	d.settle(d.begun("4.22", deploy("4.22")).Attempt.ID, ledger.OutcomeCommitted)
	waited := func(r *ledger.BeginRequest) { r.Follows = abandoned.ID }
	need.Equal(d, d.begin("4.21", deploy("4.21"), waited).Answer, ledger.AnswerRefused, "who has waited for it")
	again := d.begun("4.21", deploy("4.21"))
	need.Must(d, again.Operation.ID != abandoned.ID && d.read(abandoned.ID).Operation.State == ledger.Abandoned, "a later wish for what was abandoned: %+v", again)
	for basis, answer := range map[ledger.Basis]ledger.BeginAnswer{ledger.BasisKeySafe: ledger.AnswerBegun, ledger.BasisRiskAccepted: ledger.AnswerFinished} {
		of := func(r *ledger.BeginRequest) { r.Target, r.Supersedes = "web of "+string(basis), true }
		retried := d.retry(d.doubt("5.0 "+string(basis), of), basis)
		d.settle(retried.Attempt.ID, ledger.OutcomeCommitted)
		d.settle(d.begun("5.1 "+string(basis), of).Attempt.ID, ledger.OutcomeCommitted)
		need.Equal(d, d.begin("5.0 "+string(basis), of).Answer, answer, "back to what was sent twice, "+string(basis))
	}
}

func staleDecision(d *desk) {
	seen := d.doubt("k")
	moved := d.decide(seen, ledger.VerbDeny)
	for _, v := range []ledger.Verb{ledger.VerbConfirm, ledger.VerbDeny, ledger.VerbAbandon, ledger.VerbPark, ledger.VerbUndo} {
		_, err := ledger.Decide(ctx, d.s, d.decision(seen, v))
		var m *ledger.MovedError
		need.Must(d, errors.As(err, &m), "%s on version %d: %v, want a MovedError", v, seen.Version, err)
		if m.Seen != seen.Version || m.Version != moved.Version || m.State != ledger.Failed || m.Actor != "maya" || m.Reason == "" || m.At.IsZero() {
			d.Fatalf("%s: %+v does not say what moved it", v, m)
		}
	}
	_, err := ledger.Allow(ctx, d.s, d.grantRequest(seen, ledger.BasisRiskAccepted))
	need.Must(d, errors.Is(err, ledger.ErrMoved), "a permission on a stale version: %v, want a MovedError", err)
	if o := d.read(seen.ID).Operation; o.Version != moved.Version {
		d.Fatalf("version %d, want %d: what was refused changes nothing", o.Version, moved.Version)
	}
}

func staleRead(d *desk) {
	seen := d.doubt("k")
	now := d.decide(seen, ledger.VerbDeny)
	applied := need.Get(ledger.Observe(ctx, d.s, d.observation(seen, ledger.NotThere)))(d)
	need.Must(d, applied.After.Verdict == "" && applied.After.Version == now.Version,
		"a read of version %d made it %s at version %d", seen.Version, applied.After.State, applied.After.Version)
	if rec := d.read(seen.ID); len(rec.Reads) != 1 || rec.Reads[0].Verdict != ledger.NotThere {
		d.Fatalf("its evidence is not kept: %+v", rec.Reads)
	}
	found := need.Get(ledger.Observe(ctx, d.s, d.observation(seen, ledger.Landed, "pi_1")))(d).After // it is there, whatever moved
	need.That(d, found.Conflict == ledger.ConflictDisputed && len(found.Receipts) == 1,
		"found late, and its conflict is %q, its receipts %v", found.Conflict, found.Receipts)
}

func quietThings(d *desk) {
	o := d.doubt("k")
	d.observe(o, ledger.CannotTell)
	need.Get(ledger.Decide(ctx, d.s, ledger.Decision{ChangeID: d.id("change"), ID: o.ID, Verb: ledger.VerbNote, Reason: "asking their support", Actor: maya}))(d)
	d.ok(d.s.Price(ctx, []ledger.Pricing{{OperationID: o.ID, Digest: "policy-1", Rank: 4, ReadAt: ledger.Never, DecideAt: ledger.Never}}))
	if now := d.read(o.ID).Operation; now.Version != o.Version || now.State != ledger.Uncertain {
		d.Fatalf("version %d, want %d: a note, a price and a read that cannot tell move nothing", now.Version, o.Version)
	}
	d.want(d.decide(o, ledger.VerbConfirm), ledger.Committed)
}

func told(d *desk) {
	o := d.decide(d.observe(d.doubt("k"), ledger.Landed, "pi_1"), ledger.VerbUndo)
	want := []struct {
		verb     string
		from, to ledger.State
		who      string
	}{
		{"begin", "", ledger.Pending, "billing"},
		{"settle", ledger.Pending, ledger.Uncertain, "billing"},
		{"read", ledger.Uncertain, ledger.Committed, "auto"},
		{"undo", ledger.Committed, ledger.Uncertain, "maya"},
	}
	evs := d.events(o.ID)
	need.Must(d, len(evs) == len(want), "%d events, want %d: %+v", len(evs), len(want), evs)
	for i, w := range want {
		e := evs[i]
		if e.Verb != w.verb || e.From != w.from || e.To != w.to || e.Actor.Name != w.who || e.Reason == "" || !e.At.Equal(Noon.Add(time.Duration(i)*time.Second)) {
			d.Fatalf("event %d is %s %q→%q by %s at %s (%s), want %s %q→%q by %s", i, e.Verb, e.From, e.To, e.Actor.Name, e.At, e.Reason, w.verb, w.from, w.to, w.who)
		}
		need.Must(d, e.Version == evs[0].Version+int64(i), "event %d has version %d, the first %d", i, e.Version, evs[0].Version)
	}
	need.Must(d, evs[3].Actor == maya && evs[0].Actor.Machine && !evs[0].Actor.Terminal, "actors came back as %+v and %+v", evs[0].Actor, evs[3].Actor)
}

func lateAnswer(d *desk) {
	a := d.begun("k").Attempt
	d.settle(a.ID, ledger.OutcomeUncertain)
	o := d.settle(a.ID, ledger.OutcomeCommitted, withReceipt("pi_1"))
	d.want(o, ledger.Committed)
	if o.Receipt() != "pi_1" || o.Effects != 1 || o.Conflict != ledger.NoConflict {
		d.Fatalf("receipt %q, effects %d, conflict %q", o.Receipt(), o.Effects, o.Conflict)
	}
	if again := d.settle(a.ID, ledger.OutcomeCommitted, withReceipt("pi_1")); again.Version != o.Version {
		d.Fatalf("the same answer again moved version %d to %d", o.Version, again.Version)
	}
}

func lateContradiction(d *desk) {
	a := d.begun("k").Attempt
	o := d.decide(d.settle(a.ID, ledger.OutcomeUncertain), ledger.VerbDeny)
	after := d.settle(a.ID, ledger.OutcomeCommitted, withReceipt("pi_1"))
	d.want(after, ledger.Failed) // the decision stands
	if after.Conflict != ledger.ConflictDisputed || after.ConflictNote == "" || after.Receipt() != "pi_1" || !after.PersonOnly || after.Version == o.Version {
		d.Fatalf("conflict %q (%s), receipt %q, person only %v: the news must be kept and shown", after.Conflict, after.ConflictNote, after.Receipt(), after.PersonOnly)
	}
}

func secondReceipt(d *desk) {
	first := d.begun("k").Attempt
	second := d.retry(d.settle(first.ID, ledger.OutcomeUncertain), ledger.BasisRiskAccepted).Attempt
	d.settle(second.ID, ledger.OutcomeCommitted, withReceipt("pi_2"))
	o := d.settle(first.ID, ledger.OutcomeCommitted, withReceipt("pi_1"))
	d.want(o, ledger.Committed)
	need.Must(d, o.Conflict == ledger.ConflictTwice && o.Effects == 2 && len(o.Receipts) == 2,
		"conflict %q with %d effects and receipts %v, want a duplicate of 2", o.Conflict, o.Effects, o.Receipts)
}

func acknowledged(d *desk) {
	o := d.decide(d.observe(d.doubt("k"), ledger.Twice, "pi_1", "pi_2"), ledger.VerbAck, saying(ledger.TakenBack))
	need.Must(d, o.Conflict == ledger.NoConflict && len(o.AckedReceipts) == 2,
		"conflict %q, acknowledged %v", o.Conflict, o.AckedReceipts)
	if o = d.observe(o, ledger.Twice, "pi_1", "pi_2"); o.Conflict != ledger.NoConflict {
		d.Fatalf("what was acknowledged came up again: %s", o.ConflictNote)
	}
	if o = d.observe(o, ledger.Twice, "pi_1", "pi_2", "pi_3"); o.Conflict != ledger.ConflictTwice {
		d.Fatalf("conflict %q, want a duplicate: nobody has seen pi_3", o.Conflict)
	}
}

func orphan(d *desk) {
	res := d.begun("k")
	d.clock.Advance(61 * time.Second)
	if o := d.read(res.Operation.ID); o.Operation.StateAt(o.Now) != ledger.Uncertain {
		d.Fatalf("past its deadline a reader sees %s", o.Operation.StateAt(o.Now))
	}
	if n, err := d.s.Expire(ctx, 10); n != 1 || err != nil {
		d.Fatalf("expired %d (%v), want 1", n, err)
	}
	if n, err := d.s.Expire(ctx, 10); n != 0 || err != nil {
		d.Fatalf("expired %d (%v) again", n, err)
	}
	rec := d.read(res.Operation.ID)
	d.want(rec.Operation, ledger.Uncertain)
	if a := rec.Attempts[0]; a.Outcome != ledger.OutcomeUncertain || a.ErrorClass != ledger.ClassDeadline || rec.Operation.ErrorClass != ledger.ClassDeadline {
		d.Fatalf("the attempt ended %s (%s)", a.Outcome, a.ErrorClass)
	}
	d.want(d.settle(res.Attempt.ID, ledger.OutcomeCommitted), ledger.Committed) // it was only slow
}

func afterUndo(d *desk) {
	o := d.decide(d.observe(d.doubt("k"), ledger.Landed, "pi_1"), ledger.VerbUndo)
	for _, v := range []ledger.Verdict{ledger.Landed, ledger.NotThere} {
		o = d.observe(o, v, map[ledger.Verdict][]string{ledger.Landed: {"pi_1"}}[v]...)
		d.want(o, ledger.Uncertain)
	}
	if _, err := ledger.Allow(ctx, d.s, d.ownRepeat(o)); !errors.Is(err, ledger.ErrRefused) {
		d.Fatalf("a recorder was allowed to repeat it: %v", err)
	}
	d.want(d.decide(o, ledger.VerbDeny), ledger.Failed)
}

func undoneAnswer(d *desk) {
	o := d.settle(d.begun("k").Attempt.ID, ledger.OutcomeCommitted, withReceipt("pi_1"))
	retried := d.retry(d.decide(o, ledger.VerbUndo), ledger.BasisKeySafe)
	d.want(d.settle(retried.Attempt.ID, ledger.OutcomeUncertain), ledger.Uncertain)
}

func notThereNow(d *desk) {
	o := d.settle(d.begun("k").Attempt.ID, ledger.OutcomeCommitted, withReceipt("pi_1"))
	o = d.observe(o, ledger.NotThere)
	d.want(o, ledger.Committed)
	if rec := d.read(o.ID); len(rec.Reads) != 1 || rec.Reads[0].Verdict != ledger.CannotTell {
		d.Fatalf("reads are %+v, want one that cannot tell", rec.Reads)
	}
}
