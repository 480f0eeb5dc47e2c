package reconcile

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// decide is a person's word about an operation.
func (w *world) decide(o ledger.Operation, verb ledger.Verb, receipts ...string) ledger.Operation {
	w.Helper()
	applied := need.Get(ledger.Decide(w.ctx, w.store, ledger.Decision{ChangeID: ledger.NewID(), ID: o.ID, Version: o.Version, Verb: verb,
		Reason: "by hand", Actor: maya, Receipts: receipts, Looks: w.inForce().Kind(o.Kind).Looks}))(w)
	return applied.After
}

// once makes the reads that are due.
func (w *world) once() {
	w.Helper()
	s, err := w.engine.Once(w.ctx, nil)
	need.Must(w, err == nil && s.Errors <= 0, "%+v %v", s, err)
}

func TestI9_APersonsWordIsChecked(t *testing.T) {
	for _, tc := range []struct {
		name   string
		verb   ledger.Verb
		landed []int
		want   ledger.Conflict
		says   []string // both sides
	}{
		{"confirmed, and there", ledger.VerbConfirm, []int{420}, ledger.NoConflict, nil},
		{"confirmed, and not there", ledger.VerbConfirm, nil, ledger.ConflictDisputed, []string{"recorded as landed by maya (by hand)", "found nothing"}},
		{"confirmed, and there twice", ledger.VerbConfirm, []int{420, 420}, ledger.ConflictTwice, []string{"ch_2, ch_3"}},
		{"confirmed, and something else", ledger.VerbConfirm, []int{99}, ledger.ConflictDifferent, []string{"not what was asked"}},
		{"denied, and not there", ledger.VerbDeny, nil, ledger.NoConflict, nil},
		{"denied, and there", ledger.VerbDeny, []int{420}, ledger.ConflictDisputed, []string{"recorded as failed by maya (by hand)", "found it"}},
		{"abandoned, and there", ledger.VerbAbandon, []int{420}, ledger.ConflictDisputed, []string{"recorded as abandoned by maya", "found it"}},
		{"abandoned, and not there", ledger.VerbAbandon, nil, ledger.NoConflict, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, payPolicy)
			w.known("pay")
			o := w.decide(w.doubt("pay", 420, tc.landed...), tc.verb)
			w.once()
			n := len(w.get(o.ID).Reads)
			need.Must(t, n == 1, "%d reads before it was due", n)
			w.pass(time.Minute)
			w.once()
			rec := w.get(o.ID)
			if rec.Operation.Conflict != tc.want || rec.Operation.State != o.State || len(rec.Reads) != 2 {
				t.Errorf("%q (%s), %s, %d reads", rec.Operation.Conflict, rec.Operation.ConflictNote, rec.Operation.State, len(rec.Reads))
			}
			need.Contains(t, rec.Operation.ConflictNote, tc.says...)
			n, again := 2, 5
			if tc.verb == ledger.VerbAbandon && tc.landed == nil {
				again = 6 // it is counted from when it was found not to be there
			} else if tc.verb == ledger.VerbConfirm && tc.landed != nil && tc.want != ledger.ConflictDifferent && tc.want != ledger.ConflictTwice {
				again = 2 // it was right, and nothing more can come
			}
			for _, later := range []time.Duration{9 * time.Minute, 50 * time.Minute, 23 * time.Hour, 48 * time.Hour} {
				w.pass(later)
				w.once()
				n = min(n+1, again)
				need.Equal(t, len(w.get(o.ID).Reads), n, "reads after "+later.String())
			}
		})
	}
}

// I9: what its own answer said is looked at, too, where the kind says so: the other side may
// have done it twice.
func TestI9_AnOwnAnswerIsVerified(t *testing.T) {
	w := newWorld(t, strings.Replace(payPolicy, "    lands_within: 20s\n", "    lands_within: 20s\n    verify: 1m\n", 1))
	w.known("pay")
	for name, landed := range map[string]int{"once": 1, "twice": 2} {
		b := w.begin("pay", 420)
		for range landed {
			w.side.apply(charge{Ref: b.Operation.Token, Amount: 420, Key: b.Operation.Key})
		}
		k := w.inForce().Kind("pay")
		o := w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 201, Looks: func(string) ledger.Looks { return k.Looks }})
		w.pass(59 * time.Second)
		w.once()
		need.Equal(t, len(w.get(o.ID).Reads), 0, name)
		w.pass(2 * time.Second)
		w.once()
		rec := w.get(o.ID)
		need.That(t, len(rec.Reads) == 1 && (rec.Operation.Conflict == ledger.ConflictTwice) == (landed == 2), "%s: %+v", name, rec.Reads)
	}
}

// I9: beside one that was found there may be another, out of sight.
func TestI9_WhatWasNotSeenWholeIsLookedForAgain(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	o := w.doubt("pay", 420, 420)
	w.side.onList = func(_ *side, rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Age", "30")
		return false
	}
	w.once()
	rec := w.get(o.ID)
	need.That(t, rec.Operation.State == ledger.Committed && rec.Operation.Conflict == ledger.NoConflict, "%+v", rec.Reads)
	w.side.onList = nil
	w.side.apply(charge{Ref: o.Token, Amount: 420})
	w.pass(59 * time.Second)
	w.once()
	need.Equal(t, len(w.get(o.ID).Reads), len(rec.Reads), "looked too early")
	w.pass(2 * time.Second)
	w.once()
	need.Equal(t, w.get(o.ID).Operation.Conflict, ledger.ConflictTwice)
}

// A person was right that it did not land: once a check has proven it, sending it
// again is no risk any more.
func TestADenialThatIsProven(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	o := w.decide(w.doubt("pay", 420), ledger.VerbDeny)
	if basis, _, _ := w.inForce().Kind("pay").AllowedBasis(w.get(o.ID), w.now()); basis != ledger.BasisRiskAccepted {
		t.Fatalf("before the check the basis is %s", basis)
	}
	w.pass(time.Minute)
	w.once()
	rec := w.get(o.ID)
	basis, _, _ := w.inForce().Kind("pay").AllowedBasis(rec, w.now())
	if rec.Attempts[0].Proof != ledger.ProofNotThere || basis != ledger.BasisProof || rec.Operation.State != ledger.Failed {
		t.Errorf("proof %q, basis %s, %s", rec.Attempts[0].Proof, basis, rec.Operation.State)
	}
}

func TestI9_TheAfterCheckIsMadeWhenItCanBe(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	o := w.decide(w.doubt("pay", 420), ledger.VerbConfirm)
	w.side.onList = answer(500, nil, "")
	w.pass(time.Minute)
	w.once()
	w.side.onList = nil
	w.engine = w.newEngine(Options{}) // its breaker has seen nothing yet
	w.pass(2 * time.Minute)
	w.once()
	rec := w.get(o.ID)
	need.That(t, rec.Operation.Conflict == ledger.ConflictDisputed && len(rec.Reads) == 3, "%q after %d reads", rec.Operation.Conflict, len(rec.Reads))
}

// A price that was worked out before a look and is written after it makes no look due again.
func TestI9_ALookIsNotMadeTwiceForAStalePrice(t *testing.T) {
	w := newWorld(t, payPolicy)
	e := w.leading()
	o := w.decide(w.doubt("pay", 420), ledger.VerbConfirm)
	w.side.onList = answer(500, nil, "")
	w.pass(time.Minute)
	stale := w.inForce().Kind("pay").Price(w.get(o.ID))
	need.Get(e.ReadNow(w.ctx, o.ID))(t)
	next := w.get(o.ID).Pricing.ReadAt
	need.OK(t, w.store.Price(w.ctx, []ledger.Pricing{stale}))
	got := w.get(o.ID).Pricing.ReadAt
	need.That(t, next.After(w.now()) && got.Equal(next), "the next look was at %s, and is at %s", next, got)
}

// Its own answer is stronger than a list that does not show it.
func TestI9_AnAnswerIsNotContradictedByAnEmptyList(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	b := w.begin("pay", 5)
	o := w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 201, Receipt: "ch_99"})
	w.pass(pastProof)
	res := w.read(o.ID)
	if res.Read.Verdict != ledger.CannotTell || res.Operation.Conflict != ledger.NoConflict || !strings.Contains(res.Read.Reason, "not there now") {
		t.Errorf("%s: %s", res.Read.Verdict, res.Read.Reason)
	}
}

func TestI9_ASecondReceiptIsASecondEffect(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	one := w.decide(w.doubt("pay", 420, 420), ledger.VerbConfirm, "ch_77")
	w.pass(time.Minute)
	w.once()
	if got := w.get(one.ID).Operation; got.Conflict != ledger.ConflictDisputed || !strings.Contains(got.ConflictNote, "ch_77") || !strings.Contains(got.ConflictNote, "ch_2") {
		t.Errorf("%s: %s", got.Conflict, got.ConflictNote)
	}
}

// A pipeline sends again what was proven not to have landed, and it had: the
// proof's premise was wrong.
func TestI9_APipelinesRetryIsLookedAt(t *testing.T) {
	w := newWorld(t, strings.Replace(payPolicy, "    resend: here\n", "", 1))
	o := w.proven("pay")
	need.Get(w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof}))(t)
	begun, err := ledger.Begin(w.ctx, w.store, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: "unused", AttemptID: ledger.NewID(), Kind: "pay", Key: o.Key,
		Fingerprint: o.Fingerprint, Input: o.Input, TokenSent: true, Deadline: time.Minute, Actor: pipeline})
	need.Must(t, err == nil && begun.Answer == ledger.AnswerBegun, "%+v %v", begun, err)
	w.side.apply(charge{Ref: o.Token, Amount: 420}) // the first, after all
	c := w.side.apply(charge{Ref: o.Token, Amount: 420})
	w.settle(begun, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 201, Receipt: c.ID})
	w.once() // the engine hears of it, whoever settled it
	w.pass(time.Minute)
	w.once()
	got := w.get(o.ID).Operation
	need.That(t, got.Conflict == ledger.ConflictTwice && got.Effects == 2 && len(got.Receipts) == 2, "%q, %d effects, receipts %v", got.Conflict, got.Effects, got.Receipts)
}

// The late effect shows only after the first look: the scheduled one finds it.
func TestI9_TheSecondLookFindsWhatTheFirstCouldNot(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.proven("pay")
	res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof})
	need.Must(t, err == nil && res.Operation.Conflict == ledger.NoConflict, "%+v %v", res, err)
	w.side.apply(charge{Ref: o.Token, Amount: 420})
	w.pass(time.Minute)
	w.once()
	got := w.get(o.ID).Operation
	need.That(t, got.Conflict == ledger.ConflictTwice && len(got.Receipts) == 2, "%q, receipts %v", got.Conflict, got.Receipts)
}

// What a proof said not to be there, and what was refused as refusals are read by default,
// may land late.
func TestI9_WhatIsSaidNotToHaveLandedIsLookedForAgain(t *testing.T) {
	w := newWorld(t, payPolicy)
	proven := w.proven("pay")
	k := w.inForce().Kind("pay")
	refused := func(assumed bool) ledger.Operation {
		return w.settle(w.begin("pay", 420), ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.Refused, Status: 404, Assumed: assumed,
			Looks: func(string) ledger.Looks { return k.Looks }})
	}
	byDefault, byRule := refused(true), refused(false)
	w.pass(time.Hour)
	w.once()
	for _, o := range []ledger.Operation{proven, byDefault, byRule} {
		need.Equal(t, w.get(o.ID).Operation.Conflict, ledger.NoConflict, "conflict")
		w.side.apply(charge{Ref: o.Token, Amount: 420})
	}
	w.pass(23 * time.Hour)
	w.once()
	for o, want := range map[*ledger.Operation]ledger.Conflict{&proven: ledger.ConflictDisputed, &byDefault: ledger.ConflictDisputed, &byRule: ledger.NoConflict} {
		got := w.get(o.ID).Operation
		need.That(t, got.Conflict == want && got.State == ledger.Failed, "%q, %s", got.Conflict, got.State)
	}
}
