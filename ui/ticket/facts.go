package ticket

import (
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// Facts is what the policy in force says about one operation now, reduced to
// what the screen shows.
type Facts struct {
	Advice policy.Advice
	Price  ledger.Pricing // what the policy in force would write beside it in the list

	Pattern    string // of the kind in the policy; "" when the defaults apply
	File       string
	Line       int
	Link       string
	Downstream string
	Via        string // who would send: http, command, pipeline
	Replaces   bool   // what is asked for again is done again, once something else acted on its target
	HasRead    bool
	Unasked    string // why its check cannot be asked; "" where it can, or there is none
	Recognises string // by what a check knows an effect as its own; "" without a check
	RetryMax   int
	Remembers  time.Duration

	Lag     time.Duration // how long after its end a check missed the effect that a later one found
	LagNear bool          // and that is four fifths of its policy's times, or more: what is not seen by then counts as not there

	SafeUntil     time.Time // until when a second send cannot act twice
	ProofAt       time.Time // when "did not land" can be proven
	ProofPossible bool
	Basis         ledger.Basis
	LapsesAt      time.Time
	Looks         ledger.Looks // when, after a decision, checks show whether it was right
}

// Judge works facts out. The console has one; tests bring their own.
type Judge func(rec ledger.Record, now time.Time) Facts

// ByPolicy judges by the policy in force at the moment of asking.
func ByPolicy(inForce func() *policy.Policy) Judge {
	return func(rec ledger.Record, now time.Time) Facts {
		p := policy.Default()
		if inForce != nil {
			if q := inForce(); q != nil {
				p = q
			}
		}
		k, unasked := p.Kind(rec.Operation.Kind).Checkable(rec)
		f := Facts{
			Advice: k.Advise(rec, now), Price: k.Price(rec),
			Pattern: k.Pattern, File: p.Path(), Line: k.Line,
			Link: k.Link(rec.Operation), HasRead: k.Read != nil,
			Via:       policy.Sending{Kind: k, Record: rec}.Via(),
			Replaces:  k.Effect.Replaces(),
			RetryMax:  k.Retry.Max,
			Remembers: k.Remembers,
			SafeUntil: k.KeySafeUntil(rec),
			Looks:     k.Looks,
		}
		if unasked != nil {
			f.Unasked = unasked.Error()
		}
		if k.Downstream != nil {
			f.Downstream = k.Downstream.Name
		}
		if k.Read != nil {
			f.Recognises = k.Read.Recognises()
		}
		f.ProofAt, f.ProofPossible = k.ProofAt(rec)
		if o := rec.Operation; o.State == ledger.Committed && !o.ByAnswer {
			f.Lag = ledger.Lag(rec.Reads, o.EndedAt)
		}
		if f.Lag > 0 && k.LandsWithin != nil && k.VisibleWithin != nil {
			f.LagNear = 5*f.Lag >= 4*(*k.LandsWithin+*k.VisibleWithin)
		}
		f.Basis, _, f.LapsesAt = k.AllowedBasis(rec, now)
		return f
	}
}
