package policy

import (
	"time"

	"indoubt/ledger"
)

// Price computes what lists are ordered by. ReadAt and Reads are kept as they are.
func (k *Kind) Price(rec ledger.Record) ledger.Pricing {
	o := rec.Operation
	p := rec.Pricing
	p.OperationID, p.Version, p.Title, p.Target = o.ID, o.Version, k.Title(o), k.Target(o)
	p.Digest, p.Downstream = "", ""
	if k.policy != nil {
		p.Digest = k.policy.digest
	}
	if k.Downstream != nil {
		p.Downstream = k.Downstream.Name
	}
	p.Duplicate, p.Miss = k.Costs(o)
	p.Odds = k.chance(rec)
	p.Rank = k.rank(o, p)
	p.DecideAt = time.Time{}
	if checkable, _ := k.Checkable(rec); checkable.Read != nil && !o.HandsOff {
		p.DecideAt = ledger.Never
		if !o.DoubtedAt.IsZero() {
			p.DecideAt = o.DoubtedAt.Add(k.EscalateAfter)
		}
	}
	if p.ReadAt.IsZero() && k.Read == nil {
		p.ReadAt = ledger.Never
	}
	return p
}

// rank is what is lost if nobody acts: the miss as far as it may not have
// landed; for what happened twice, the duplicate; nothing once it is settled.
func (k *Kind) rank(o ledger.Operation, p ledger.Pricing) float64 {
	switch {
	case o.Conflict == ledger.Duplicate || o.Conflict == ledger.PossibleDuplicate:
		return p.Duplicate.Value
	case o.Conflict != ledger.NoConflict:
		return p.Miss.Value
	case o.State == ledger.Abandoned, o.State == ledger.Failed && !o.Doubted:
		return 0
	}
	return (1 - p.Odds) * p.Miss.Value
}
