package reconcile

import (
	"math/rand/v2"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

const (
	readMin = time.Second // first pause between two reads of one operation
	readMax = time.Hour   // longest
	// readFloor keeps jitter from asking again at once.
	readFloor = 250 * time.Millisecond
	// afterProof is how long after the proof time the deciding read is made, and
	// proofSpread how far those of an outage are drawn apart.
	afterProof  = 50 * time.Millisecond
	proofSpread = 2 * time.Second
)

// nextRead is when an operation in doubt is read again after done reads: an
// exponentially growing pause with full jitter, cut short so that one read
// begins just after the moment from which absence can be proven.
func nextRead(done int, now, proofAt time.Time, provable bool, random func() float64) time.Time {
	pause := readMax
	if done < 13 {
		pause = min(readMax, readMin<<max(done-1, 0))
	}
	next := now.Add(max(readFloor, time.Duration(random()*float64(pause))))
	if provable {
		at := proofAt.Add(afterProof)
		if at.After(now) {
			at = at.Add(time.Duration(random() * float64(min(proofSpread, at.Sub(now)/20))))
			if next.After(at) {
				next = at
			}
		}
	}
	return next
}

// priced is what the policy says of an operation, with its reads scheduled.
// rec.Pricing says what was scheduled before.
func (e *reader) priced(k *policy.Kind, digest string, rec ledger.Record) ledger.Pricing {
	asked := ledger.Never
	if rec.Operation.State == ledger.Uncertain {
		if err := k.NoCheck(rec); policy.LackedHere(err) {
			asked = e.lead.unchecked(scopeOf(k))
			rec.Pricing.Digest, rec.Pricing.DecideAt = digest, asked // until then another process is taken to check it
		}
	}
	p := k.Price(rec)
	p.OperationID, p.Digest = rec.Operation.ID, digest
	p.Reads, p.ReadAt = rec.Pricing.Reads, rec.Pricing.ReadAt
	p.DecideAt = sooner(p.DecideAt, asked)
	switch {
	case k.Read == nil:
		p.ReadAt = ledger.Never
	case p.ReadAt.Equal(ledger.Never): // the policy has a check now
		p.ReadAt = time.Time{}
	}
	return p
}

func (e *reader) afterRead(k *policy.Kind, digest string, rec ledger.Record, wait time.Time) ledger.Pricing {
	now := e.now()
	proofAt, provable := k.ProofAt(rec)
	rec.Pricing.ReadAt = nextRead(rec.Pricing.Reads, now, proofAt, provable, rand.Float64)
	if wait.After(rec.Pricing.ReadAt) {
		rec.Pricing.ReadAt = apart(now, wait)
	}
	return e.priced(k, digest, rec)
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// spread draws what was postponed to one moment apart.
func spread(at time.Time) time.Time {
	return at.Add(time.Duration(rand.Float64() * float64(2*time.Second)))
}

// apart draws what waits for a downstream that is down or throttled apart, after it
// may be read again: the longer it waited, the further apart.
func apart(now, until time.Time) time.Time {
	return until.Add(time.Duration(rand.Float64() * float64(max(2*time.Second, until.Sub(now)/2))))
}
