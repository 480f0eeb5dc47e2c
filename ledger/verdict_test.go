package ledger

import (
	"errors"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// A verdict speaks for what was sent before it. After one more send the old one
// neither stands beside the doubt nor hides what a later check says.
func TestI9_AbsenceSpeaksForTheAttemptsBeforeIt(t *testing.T) {
	b, _ := doubt(t)
	b.observe(NotThere, 0)
	again := need.Get(b.allow(BasisProof))(t)
	b.settle(again, OutcomeUncertain)
	v := b.rec.Operation.Verdict
	need.Must(t, v == "", "in doubt again, and its verdict is %q", v)
	need.OK(t, b.decide(VerbConfirm))
	b.observe(NotThere, 0)
	b.want(Committed, 1, ConflictDisputed)
}

// A person who decides against what a check found is told once, when a later check
// finds the same.
func TestI9_APersonAgainstAnEarlierVerdict(t *testing.T) {
	b, _ := doubt(t)
	b.observe(NotThere, 0)
	for _, v := range []Verb{VerbUndo, VerbConfirm} {
		need.OK(t, b.decide(v))
	}
	b.observe(NotThere, 0)
	b.want(Committed, 1, ConflictDisputed)
	need.OK(t, b.say(LandedOnce))
	b.observe(NotThere, 0)
	b.want(Committed, 1, NoConflict)

	for verb, state := range map[Verb]State{VerbDeny: Failed, VerbAbandon: Abandoned} {
		c, _ := doubt(t)
		c.observe(Landed, 1, "r1")
		for _, v := range []Verb{VerbUndo, verb} {
			need.OK(t, c.decide(v))
		}
		c.observe(Landed, 1, "r1")
		c.want(state, 1, ConflictDisputed)
		need.OK(t, c.say(NotLanded))
		c.observe(Landed, 1, "r1")
		c.want(Failed, 0, NoConflict)
	}
}

// What a person denied and a check then proves is proven: its key is free, and
// sending it again is no risk.
func TestDeniedAndThenProvenIsProven(t *testing.T) {
	b, _ := doubt(t)
	need.OK(t, b.decide(VerbDeny))
	res, _ := b.begin()
	need.Must(t, res.Answer == AnswerRefused, "%v", res.Answer)
	b.observe(NotThere, 0)
	b.want(Failed, 0, NoConflict)
	p := b.rec.Attempts[0].Proof
	need.Must(t, p == ProofNotThere, "its attempt's proof is %q", p)
	res, _ = b.begin()
	need.Must(t, res.Answer == AnswerBegun && res.Attempt.Basis == BasisProof, "%v", res.Answer)

	// What was given up stays given up, and what contradicts itself stays a person's.
	c, _ := doubt(t)
	need.OK(t, c.decide(VerbAbandon))
	c.observe(NotThere, 0)
	c.want(Abandoned, 0, NoConflict)
	res, _ = c.begin()
	need.Must(t, res.Answer == AnswerRefused, "%v", res.Answer)
	d, _ := doubt(t)
	need.OK(t, d.decide(VerbDeny))
	d.observe(Landed, 1, "r1")
	d.observe(NotThere, 0)
	need.Must(t, d.rec.Attempts[0].Proof == "", "proven against what was seen")
}

// A late refusal contradicts neither a denial nor an abandonment.
func TestALateRefusalAgreesWithADenial(t *testing.T) {
	for verb, state := range map[Verb]State{VerbDeny: Failed, VerbAbandon: Abandoned} {
		b, a := doubt(t)
		need.OK(t, b.decide(verb))
		b.settle(a, OutcomeFailed)
		b.want(state, 0, NoConflict)
		got := b.rec.Attempts[0]
		need.Must(t, got.LateOutcome == OutcomeFailed && got.Proof == Refused && !b.rec.Operation.PersonOnly, "%+v", got)
		res, _ := b.begin()
		need.Must(t, (res.Answer == AnswerBegun) == (verb == VerbDeny), "after %s: %s", verb, res.Answer)
	}
	b, a := doubt(t)
	b.observe(NotThere, 0)
	b.settle(a, OutcomeFailed)
	b.want(Failed, 0, NoConflict)
}

// A proof that was contradicted is none: its pipeline must not send again, not
// even when the conflict was dealt with.
func TestI12_AContradictedProofFreesNoKey(t *testing.T) {
	for name, found := range map[string]func(*bench, string){
		"found":         func(b *bench, _ string) { b.observe(Landed, 1, "r1") },
		"found twice":   func(b *bench, _ string) { b.observe(Twice, 2, "r1", "r2") },
		"found another": func(b *bench, _ string) { b.observe(Different, 1, "r1") },
		"late answer":   func(b *bench, a string) { b.settle(a, OutcomeCommitted, receipt("r1")) },
	} {
		b, a := doubt(t)
		b.observe(NotThere, 0)
		found(b, a)
		for range 2 {
			need.That(t, b.rec.Operation.PersonOnly, "%s: %s, person only %t", name, b.rec.Operation.State, b.rec.Operation.PersonOnly)
			res, _ := b.begin()
			need.Must(t, res.Answer != AnswerBegun, "%s: its pipeline was told %s (%s)", name, res.Answer, res.Why)
			if b.rec.Operation.Conflict != NoConflict {
				need.OK(t, b.say(TakenBack))
			}
		}
	}
}

// What a person said and what a check found stand in the conflict, both.
func TestI9_TwoFoundOfWhatWasDenied(t *testing.T) {
	for _, verb := range []Verb{VerbDeny, VerbAbandon} {
		b, _ := doubt(t)
		need.OK(t, b.decide(verb))
		state := b.rec.Operation.State
		b.observe(Twice, 2, "r1", "r2")
		b.want(state, 2, ConflictTwice)
		need.Contains(t, b.rec.Operation.ConflictNote, "recorded as "+string(state)+" by maya (because)", "read twice")
	}
}

// A late refusal of one attempt says nothing against the effect that a check
// found of another.
func TestI9_ARefusalOfOneAttemptContradictsNoOther(t *testing.T) {
	for _, none := range []bool{true, false} {
		b, first := doubt(t)
		basis := BasisRiskAccepted
		if none {
			b.observe(NotThere, 0)
			basis = BasisProof
		}
		again := need.Get(b.allow(basis))(t)
		b.settle(again, OutcomeUncertain)
		b.observe(Landed, 1, "r-1")
		b.settle(first, OutcomeFailed)
		b.want(Committed, 1, NoConflict)
		b.settle(again, OutcomeFailed)
		b.want(Committed, 1, ConflictDisputed) // now nothing is left that could have made it
	}
}

// An attempt that the ledger lost when its database failed over may have been the last: what
// a check did not find before that one's end is not proven, and a proof from before is none.
func TestI6_AnAttemptThatWasLost(t *testing.T) {
	b, _ := doubt(t)
	b.rec.Gap = b.rec.Now
	b.observe(NotThere, 0)
	b.want(Uncertain, 0, NoConflict)
	r := b.rec.Reads[0]
	need.Must(t, r.Verdict == CannotTell && r.Cause == CauseNone, "the check says %s, %s: %s", r.Verdict, r.Cause, r.Reason)
	b.rec.Now = b.rec.Gap.Add(time.Minute) // as long as its attempt might take
	b.observe(NotThere, 0)
	b.want(Uncertain, 0, NoConflict)
	b.observe(NotThere, 0)
	b.want(Failed, 0, NoConflict)
	_ = need.Get(b.allow(BasisProof))(t)

	c, _ := doubt(t)
	c.observe(NotThere, 0)
	c.rec.Gap = c.rec.Now
	var refused *RefusedError
	_, err := c.allow(BasisProof)
	need.Must(t, errors.As(err, &refused) && refused.Code == "refused", "what was proven before is no proof now: %v", err)
	c.rec.Now = c.rec.Gap.Add(2 * time.Minute)
	c.observe(NotThere, 0)
	_ = need.Get(c.allow(BasisProof))(t)

	// What began later is not lost.
	d, _ := doubt(t)
	d.rec.Gap = d.rec.Operation.CreatedAt.Add(-time.Millisecond)
	d.observe(NotThere, 0)
	d.want(Failed, 0, NoConflict)
}

// A redirect may have been followed past the record: that nothing is found proves nothing.
func TestI6_ARedirectedAttemptIsNeverAbsent(t *testing.T) {
	for name, answer := range map[string]func(*SettleRequest){
		"by its status": func(s *SettleRequest) { s.Status = 307 },
		"by its class":  func(s *SettleRequest) { s.ErrorClass = Class3xx },
	} {
		b := newBench(t)
		_, a := b.begin()
		b.settle(a, OutcomeUncertain, answer)
		b.observe(NotThere, 0)
		need.That(t, b.rec.State() == Uncertain && b.rec.Attempts[0].Proof == "", "%s: %s, proof %q", name, b.rec.State(), b.rec.Attempts[0].Proof)
		b.observe(Landed, 1, "r1")
		b.want(Committed, 1, NoConflict)

		// Nor does a check prove what a person has said of it, or has left open.
		for _, verb := range []Verb{VerbDeny, VerbAbandon} {
			b := newBench(t)
			_, a := b.begin()
			b.settle(a, OutcomeUncertain, answer)
			need.OK(t, b.decide(verb))
			b.observe(NotThere, 0)
			need.That(t, b.rec.Attempts[0].Proof == "" && b.rec.Operation.Fact != Failed, "%s, after %s: proof %q, fact %q", name, verb, b.rec.Attempts[0].Proof, b.rec.Operation.Fact)
		}
	}
}
