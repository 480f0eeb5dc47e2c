package advice

import (
	"slices"
	"time"

	"indoubt/ledger"
)

// LatestEnd is the latest time at which the last transmission can have ended, as far as
// the checks of this boot tell: by the wall clock, and no earlier than the first of them.
func (k Terms) LatestEnd(rec ledger.Record) time.Time {
	end := k.ToldEnd(rec)
	for _, a := range rec.Attempts {
		waited, seen := rec.Waited(a)
		if at := rec.Now.Add(a.Unheard() - waited); seen && at.After(end) {
			end = at
		}
	}
	return end
}

// ToldEnd is latestEnd by the wall clock, for people. An attempt without a recorded end may
// go on until its deadline, and so may one that the ledger has lost.
func (k Terms) ToldEnd(rec ledger.Record) time.Time {
	end := rec.Operation.EndedAt
	if lost := rec.LostEnd(k.Deadline); lost.After(end) {
		end = lost
	}
	if rec.Operation.State == ledger.Pending && rec.Operation.DeadlineAt.After(end) {
		end = rec.Operation.DeadlineAt
	}
	for _, a := range rec.Attempts {
		at := a.EndedAt
		if at.IsZero() {
			at = a.DeadlineAt
		}
		if a.TreeAt.After(at) { // what it had started went on until then
			at = a.TreeAt
		}
		if at.After(end) {
			end = at
		}
	}
	return end
}

// earliestStart is the earliest time at which the first transmission can have begun: by the
// wall clock, and no later than a check of this boot saw it over.
func earliestStart(rec ledger.Record) time.Time {
	start := ToldStart(rec)
	for _, a := range rec.Attempts {
		waited, seen := rec.Waited(a)
		if at := rec.Now.Add(-waited); seen && at.Before(start) {
			start = at
		}
	}
	return start
}

// ToldStart is earliestStart by the wall clock, for people.
func ToldStart(rec ledger.Record) time.Time {
	start := rec.Operation.StartedAt
	for _, a := range rec.Attempts {
		if start.IsZero() || !a.StartedAt.IsZero() && a.StartedAt.Before(start) {
			start = a.StartedAt
		}
	}
	return start
}

// ProofAt is from when on a read that finds nothing proves absence (I6): the
// latest end of any attempt + lands_within + visible_within + Skew. It is false
// when no wait proves it: a bound is not stated, there is no read that looks for
// the token and can be complete, the token is not known to have been sent, a
// process of an attempt may still write, or of a command that the ledger has lost, it looks from the newest of several
// attempts on, the effect may have gone out of sight by then, or only a person
// settles this operation.
func (k Terms) ProofAt(rec ledger.Record) (time.Time, bool) {
	if k.LandsWithin == nil || k.VisibleWithin == nil || rec.Operation.PersonOnly {
		return time.Time{}, false
	}
	if !k.CanProve || !TokenSent(rec) || rec.OpenTree() != nil || rec.LostCommand() {
		return time.Time{}, false
	}
	end := k.LatestEnd(rec)
	if end.IsZero() || k.NewestOnly && doubtedBefore(rec) {
		return time.Time{}, false
	}
	at := end.Add(*k.LandsWithin + *k.VisibleWithin + ledger.Skew)
	if until := k.VisibleUntil(rec); !at.Before(until) {
		return time.Time{}, false
	}
	return at, true
}

// VisibleUntil is until when a read can be trusted to show the effect of every
// attempt: the first start + visible_for − Skew, or Never where that is not bounded.
func (k Terms) VisibleUntil(rec ledger.Record) time.Time {
	start := earliestStart(rec)
	if k.VisibleFor == nil || start.IsZero() {
		return ledger.Never
	}
	return start.Add(*k.VisibleFor - ledger.Skew)
}

// TokenSent reports whether the token was in every attempt that may have landed:
// a search by token is blind to an effect without it.
func TokenSent(rec ledger.Record) bool {
	if rec.Operation.Token == "" || len(rec.Attempts) == 0 {
		return rec.Operation.TokenSent && rec.Operation.Token != ""
	}
	return allThatMayHaveLanded(rec.Attempts, func(a ledger.Attempt) bool { return a.TokenSent })
}

// keyWorked reports whether every attempt that may have landed carried the key.
func keyWorked(rec ledger.Record) bool {
	return len(rec.Attempts) > 0 && allThatMayHaveLanded(rec.Attempts, func(a ledger.Attempt) bool { return a.KeyWorks })
}

func allThatMayHaveLanded(attempts []ledger.Attempt, had func(ledger.Attempt) bool) bool {
	return !slices.ContainsFunc(attempts, func(a ledger.Attempt) bool { return !had(a) && !proven(a) })
}

// KeyWorks reports whether the downstream takes a repeat under the same key for the
// same request, as far as the policy knows.
func (k Terms) KeyWorks() bool { return k.Remembers > 0 || k.Effect.Safe() }

// KeySafeUntil is until when a second send cannot act twice: while the
// downstream remembers the key, so long that a new attempt could still end in
// time (first start + remembers − deadline − lands_within − Skew). It is Never
// for an idempotent kind that no later operation has overtaken, and the zero
// time when a repeat is not known to be safe.
func (k Terms) KeySafeUntil(rec ledger.Record) time.Time {
	if k.Effect.Safe() && rec.Overtaken() == nil {
		return ledger.Never
	}
	if !k.CarriesKey(rec) {
		return time.Time{} // the repeat would go out without it
	}
	return k.rememberedUntil(rec)
}

// RepeatUntil is until when a repeat of a recorded request gets the answer that was
// lost; the zero time where the policy does not say that it would.
func (k Terms) RepeatUntil(rec ledger.Record) time.Time {
	if !k.Replays || len(rec.Attempts) == 0 {
		return time.Time{}
	}
	return k.rememberedUntil(rec)
}

// rememberedUntil is until when the downstream knows the key of a transmission that
// begins then as that of the attempts before; the zero time where it does not.
func (k Terms) rememberedUntil(rec ledger.Record) time.Time {
	start := earliestStart(rec)
	if k.Remembers == 0 || k.LandsWithin == nil || start.IsZero() {
		return time.Time{}
	}
	if len(rec.Attempts) > 0 && !keyWorked(rec) {
		return time.Time{} // one went out without the key, so the key does not cover it
	}
	return start.Add(k.Remembers - k.Deadline - *k.LandsWithin - ledger.Skew)
}

func proven(a ledger.Attempt) bool {
	return a.Proof != "" && (a.Final() == ledger.OutcomeFailed || a.Proof == ledger.ProofNotThere)
}

// doubtedBefore reports whether an attempt before the newest may have landed.
func doubtedBefore(rec ledger.Record) bool {
	last := len(rec.Attempts) - 1
	return last > 0 && !allProven(rec.Attempts[:last])
}

func allProven(attempts []ledger.Attempt) bool {
	return len(attempts) > 0 && !slices.ContainsFunc(attempts, func(a ledger.Attempt) bool { return !proven(a) })
}

// AllowedBasis is why one more attempt would be allowed now, in one sentence,
// and until when: proof that it did not land, else a key that makes a repeat
// safe, else only a risk that a person takes. Where it was overtaken, only the
// risk is left.
func (k Terms) AllowedBasis(rec ledger.Record, now time.Time) (basis ledger.Basis, why string, lapsesAt time.Time) {
	o := rec.Operation
	if later := rec.Overtaken(); later != nil {
		return ledger.BasisRiskAccepted, overtakenReason(later), ledger.Never
	}
	if o.StateAt(now) == ledger.Failed && allProven(rec.Attempts) && !o.PersonOnly && !rec.ProofLost(ledger.NotThere) {
		return ledger.BasisProof, "it did not land: " + noEffectBecause(rec), ledger.Never
	}
	if until := k.KeySafeUntil(rec); now.Before(until) {
		if until.Equal(ledger.Never) {
			return ledger.BasisKeySafe, "it is safe to repeat, and no later operation has overtaken it", ledger.Never
		}
		why := "its key is remembered until " + until.Local().Format("Mon 2 Jan 15:04 MST") + ": a second send cannot act twice"
		return ledger.BasisKeySafe, why, until
	}
	r, unseen := ledger.Unseen(rec.Reads, len(rec.Attempts))
	if unseen && o.StateAt(now) == ledger.Uncertain && !o.PersonOnly && o.Conflict == ledger.NoConflict && !rec.ProofLost(ledger.NotSeen) {
		return ledger.BasisNotSeen, "not seen: looked at " + r.BeganAt.Local().Format("15:04:05 MST") + ", sees its siblings", ledger.Never
	}
	return ledger.BasisRiskAccepted, k.riskBecause(rec, now), ledger.Never
}

func noEffectBecause(rec ledger.Record) string {
	for _, a := range slices.Backward(rec.Attempts) {
		switch a.Proof {
		case ledger.ProofNotThere:
			for _, r := range rec.Reads {
				if r.Verdict == ledger.NotThere {
					return "a check that began " + r.BeganAt.Local().Format("15:04:05 MST") + " found that it is not there"
				}
			}
			return "a check found that it is not there"
		case ledger.Refused:
			return "it was refused"
		}
	}
	return "nothing was ever sent"
}

func (k Terms) riskBecause(rec ledger.Record, now time.Time) string {
	until := k.KeySafeUntil(rec)
	switch {
	case rec.Operation.StateAt(now) == ledger.Failed && allProven(rec.Attempts) && rec.ProofLost(ledger.NotThere):
		at := rec.Gap.Local().Format("Mon 2 Jan 15:04 MST")
		return "the ledger lost its newest writes on " + at + ", and may have lost an attempt of it"
	case rec.Operation.StateAt(now) == ledger.Failed && rec.Operation.Actor != "" && !allProven(rec.Attempts):
		return "there is no proof: that it did not land is what " + rec.Operation.Actor + " says"
	case !until.IsZero():
		return "it is not known whether it landed, and its key is no longer remembered"
	}
	return "it is not known whether it landed"
}

// ReadsDecide reports whether it is left to reads what becomes of the operation. Else a
// person looks at once: nothing can be read, only a person settles it, or it was overtaken.
func (k Terms) ReadsDecide(rec ledger.Record) bool {
	return k.CanSee && !rec.Operation.PersonOnly && rec.Overtaken() == nil
}

// DoubtSince is from when a doubt waits for a person: its first, or the end of an
// attempt that came after it.
func DoubtSince(o ledger.Operation) time.Time {
	if o.EndedAt.After(o.DoubtedAt) && !o.DoubtedAt.IsZero() {
		return o.EndedAt
	}
	return o.DoubtedAt
}

// Rank is the expected loss if no one acts: the miss, weighed by the chance that the
// operation did not land; for a duplicate its cost; zero once it is settled.
func Rank(o ledger.Operation, p ledger.Pricing) float64 {
	switch {
	case o.Conflict == ledger.ConflictTwice || o.Conflict == ledger.ConflictMaybeTwice:
		return p.Duplicate.Value
	case o.Conflict != ledger.NoConflict:
		return p.Miss.Value
	case o.State == ledger.Abandoned, o.State == ledger.Failed && !o.Doubted:
		return 0
	}
	return (1 - Rounded(p.Odds)) * p.Miss.Value
}
