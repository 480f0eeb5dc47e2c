package reconcile

import (
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// rechecks is how often a read of a settled operation is tried again that could
// not be made.
const rechecks = 6

// RecheckAt is when an operation that is settled now is read once more to tell
// whether that was right (I9): after a send, and after a person's confirm, deny
// or abandon. The zero time where the kind has no read.
func RecheckAt(k *policy.Kind, now time.Time) time.Time {
	if k == nil || k.Read == nil {
		return time.Time{}
	}
	return now.Add(late(k))
}

// late is how long after a send one more read makes sense.
func late(k *policy.Kind) time.Duration {
	d := k.Verify
	if k.LandsWithin != nil {
		d = max(d, *k.LandsWithin)
	}
	if k.VisibleWithin != nil {
		d += *k.VisibleWithin
	}
	return max(d, time.Second)
}

// recheck is when an operation that is settled after this read is read once
// more: as asked for; else again, where this one came too early or could not be
// made.
func (e *reader) recheck(rec ledger.Record, f findings, p policy.Proof, verdict ledger.Verdict, c check) time.Time {
	now := e.now()
	if !c.recheck.IsZero() {
		return c.recheck
	}
	settled := rec.Operation.State != ledger.Pending && rec.Operation.State != ledger.Uncertain
	if !settled && len(f.Effects) != 1 {
		return time.Time{}
	}
	made := 0
	for _, r := range rec.Reads {
		if settled && r.BeganAt.After(rec.Operation.SettledAt) {
			made++
		}
	}
	decidable := p.Provable && p.SaidLanded == ""
	switch {
	case made >= rechecks:
	case len(f.Effects) == 0 && decidable && !f.Began.After(p.At):
		return spread(p.At)
	case f.Trouble != "", f.Stale != "", // also where one was found: a second may have been out of sight
		len(f.Effects) == 0 && !verdict.Tells() && (decidable || rec.Operation.State == ledger.Committed): // it did not even see what is recorded
		again := now.Add(min(time.Minute<<made, time.Hour))
		if f.wait.After(again) {
			again = f.wait
		}
		return spread(again)
	}
	return time.Time{}
}
