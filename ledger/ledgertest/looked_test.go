package ledgertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

// I13: a begin that the ledger may have forgotten, because it was adopted, is not sent before it is looked for.
func TestI13_WhatMayBeForgottenIsLookedForFirst(t *testing.T) {
	d := under(t, "the ledger's key, of this ledger.")
	finds := func(r *ledger.BeginRequest) {
		tokenless(r)
		r.WhenLost, r.TokenSent, r.TTL = ledger.CheckLooks, true, 0
	}
	known, failed := d.begun("known", finds), d.begun("failed", finds)
	d.settle(known.Attempt.ID, ledger.OutcomeCommitted)
	d.settle(failed.Attempt.ID, ledger.OutcomeFailed)
	end := failed.Attempt.StartedAt
	d.clock.Advance(time.Hour)
	d.decide(d.read(known.Operation.ID).Operation, ledger.VerbNote) // people go on in an older state of it
	m := d.s.(*Memory)
	d.ok(m.db.Update(ctx, store.Adoption{Actor: maya, Why: "adopted"}.Write))
	d.clock.Advance(time.Hour)

	need.Equal(t, d.begin("lost", finds).Answer, ledger.AnswerHeld, "before anyone has looked")
	day := 24 * time.Hour
	release := ledger.Lift{Scope: "all", Actor: maya, Reason: "looked", ChangeID: d.id("lift"), LookFirst: &day}
	d.ok(d.s.LiftHold(ctx, release))
	d.ok(d.s.LiftHold(ctx, release)) // its answer was lost

	lost := d.request("lost")
	finds(&lost)
	for n := range 3 { // with the same change id, as one whose answer was lost
		res := need.Get(ledger.Begin(ctx, d.s, lost))(t)
		need.That(t, res.Answer == ledger.AnswerInDoubt && res.Handle() == ledger.Handle{} && res.Attempt.ID == "", "lost, %d: %+v", n, res)
		need.Equal(t, res.Forgotten, n == 0, "it is recorded once")
		need.Equal(t, strings.Contains(res.Why, "adopted"), n == 0, "it is said why")
	}
	again := d.begin("lost", finds)
	need.That(t, again.Answer == ledger.AnswerInDoubt && !again.Forgotten, "another caller: %+v", again)
	rec := d.read(again.Operation.ID)
	a := rec.Attempts[0]
	mask := ledger.Mask(need.Get(d.s.DigestKey(ctx))(t))
	need.Equal(t, rec.Operation.Token, mask.Token("card.charge", "", "lost", 0))
	need.That(t, len(rec.Attempts) == 1 && a.Sender == ledger.SenderForgotten && a.StartedAt.Equal(end) && rec.Operation.TokenSent, "%+v", a)
	need.That(t, rec.LostEnd(0).Equal(a.DeadlineAt) && a.DeadlineAt.Equal(rec.Gap.Add(time.Minute)) && a.Unheard() == 0, "lost until %s, adopted at %s", rec.LostEnd(0), rec.Gap)
	_, err := ledger.Settle(ctx, d.s, ledger.SettleRequest{ChangeID: d.id("change"), AttemptID: lost.AttemptID,
		Outcome: ledger.OutcomeCommitted, Actor: billing})
	need.That(t, errors.Is(err, ledger.ErrNotFound), "its caller has an attempt: %v", err)

	d.observe(rec.Operation, ledger.NotThere, "")
	res := d.begun("lost", finds)
	need.That(t, res.Operation.ID == rec.Operation.ID && res.Attempt.N == 2 &&
		res.Operation.Token == rec.Operation.Token, "%+v", res.Operation)
	d.settle(res.Attempt.ID, ledger.OutcomeFailed)
	need.Equal(t, d.begun("lost", finds).Attempt.N, 3, "what failed since is known to have")

	was := d.begin("failed", finds)
	rec = d.read(was.Operation.ID)
	need.That(t, was.Answer == ledger.AnswerInDoubt && was.Forgotten && len(rec.Attempts) == 2 &&
		rec.Operation.Token == failed.Operation.Token,
		"failed before: %+v", was)
	// Who sent what was lost still knows of it. It is the same one, whatever it was looked for and begun again since.
	for _, key := range []string{"sent", "sent and begun again"} {
		res := d.begin(key, finds)
		need.Must(t, res.Forgotten, "%+v", res)
		d.begin(key, finds) // its deadline is written down
		op := d.read(res.Operation.ID).Operation
		if key != "sent" {
			d.observe(op, ledger.NotThere)
			d.settle(d.begun(key, finds).Attempt.ID, ledger.OutcomeCommitted, func(r *ledger.SettleRequest) { r.Receipt = "second" })
		}
		was := d.request(key)
		finds(&was)
		op.ID, op.Version = was.OperationID, 1
		sent := ledger.SentOf(was, ledger.BeginResult{Answer: ledger.AnswerBegun, Operation: op,
			Attempt: ledger.Attempt{ID: was.AttemptID, OperationID: op.ID, N: 1, StartedAt: end, DeadlineAt: end.Add(time.Minute)}})
		for range 2 { // its answer was lost
			applied := need.Get(ledger.SettleSent(ctx, d.s, sent, ledger.SettleRequest{ChangeID: "late " + key, AttemptID: was.AttemptID,
				Outcome: ledger.OutcomeCommitted, Receipt: "first", Status: -1, Actor: billing}))(t)
			need.Equal(t, applied.After.ID, res.Operation.ID, key)
		}
		o := d.read(res.Operation.ID).Operation
		twice := key != "sent"
		need.That(t, o.State == ledger.Committed && (o.Conflict == ledger.ConflictTwice) == twice, "%s: %s %s", key, o.State, o.Conflict)
	}
	refused, now := d.request("refused"), d.begin("refused", finds)
	finds(&refused)
	lostOne := now.Operation
	lostOne.ID, lostOne.Version = refused.OperationID, 1
	applied := need.Get(ledger.SettleSent(ctx, d.s, ledger.SentOf(refused, ledger.BeginResult{Answer: ledger.AnswerBegun, Operation: lostOne,
		Attempt: ledger.Attempt{ID: refused.AttemptID, OperationID: lostOne.ID, N: 1, StartedAt: end, DeadlineAt: end.Add(time.Minute)}}),
		ledger.SettleRequest{ChangeID: "late refusal", AttemptID: refused.AttemptID, Outcome: ledger.OutcomeFailed, Proof: ledger.Refused,
			Status: 402, Actor: billing}))(t)
	need.That(t, applied.After.ID != now.Operation.ID && d.begin("refused", finds).Answer == ledger.AnswerInDoubt,
		"it was refused once, and another one may have landed: %+v", applied.After)
	need.Equal(t, d.begin("known", finds).Answer, ledger.AnswerFinished)

	for what, mod := range map[string]func(*ledger.BeginRequest){
		"no check":                     func(r *ledger.BeginRequest) { r.WhenLost = ledger.PersonLooks },
		"its token is not sent":        func(r *ledger.BeginRequest) { r.TokenSent = false },
		"its token is of this request": func(r *ledger.BeginRequest) { r.Token = r.StandIn },
		"its caller makes its tokens":  func(r *ledger.BeginRequest) { r.Token = "theirs" },
	} {
		res := d.begin(what, finds, mod)
		need.That(t, res.Answer == ledger.AnswerHeld && res.Operation.ID == "" &&
			strings.Contains(res.Why, ledger.ReleaseUnlooked("card.charge")), "%s: %+v", what, res)
	}
	for what, mod := range map[string]func(*ledger.BeginRequest){
		"harmless":              func(r *ledger.BeginRequest) { r.WhenLost = ledger.NoHarm },
		"named by what it asks": func(r *ledger.BeginRequest) { r.Key = ledger.InputKey(strings.Repeat("a", 32)) },
		"named by nothing":      func(r *ledger.BeginRequest) { r.Key = ledger.OwnKey(ledger.NewID()) },
	} {
		need.Equal(t, d.begin(what, finds, mod).Answer, ledger.AnswerBegun, what)
	}
	none := new(time.Duration)
	d.ok(d.s.LiftHold(ctx, ledger.Lift{Scope: "kind:card.charge", Actor: maya, Reason: "looked", LookFirst: none}))
	d.begun("of a kind that was let go", finds)
	other := func(r *ledger.BeginRequest) { r.Kind = "mail" }
	need.Equal(t, d.begin("another kind", finds, other).Answer, ledger.AnswerInDoubt)
	d.clock.Advance(day)
	d.begun("when it is over", finds, other)
	need.That(t, need.Get(d.s.Info(ctx))(t).Look == nil, "it is not over")
}
