// Package ticket is the read model of one operation: what a person or a script is
// told about it. Lists, details, dialogs, JSON and pictures say the same words
// and the same figures, because they ask here.
//
// A Ticket holds the record as the ledger has it. What it says of it is a
// safe.Text.
package ticket

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/advice"
	"indoubt/ui/safe"
)

// Ticket is one operation at one moment.
type Ticket struct {
	Row    ledger.Row
	Record *ledger.Record // nil while only its row was read
	Events []ledger.Event // its history, where that was read
	Facts  Facts          // what the policy says of the record
	Now    time.Time
	Zone   *time.Location
}

// From is the ticket of a whole record at a moment, under the policy that judge
// asks. A record that was priced under another policy, or not at all, gets the
// prices, the title and the target of this one.
func From(rec ledger.Record, judge Judge, now time.Time, zone *time.Location) Ticket {
	rec.Now = now
	f := judge(rec, now)
	if f.Price != (ledger.Pricing{}) && (rec.Pricing.Digest == "" || rec.Pricing.Digest != f.Price.Digest) {
		rec.Pricing = f.Price
	}
	o := &rec.Operation
	o.Title, o.Target = cmp.Or(o.Title, rec.Pricing.Title, o.Kind+" "+o.Key), cmp.Or(ledger.NamedTarget(o.Target), rec.Pricing.Target)
	return Ticket{Row: rec.Row(), Record: &rec, Facts: f, Now: now, Zone: zone}
}

// With is the ticket at another moment, of the same facts.
func (t Ticket) With(now time.Time, zone *time.Location) Ticket {
	t.Now, t.Zone = now, zone
	return t
}

// State and Lane are where the operation stands at the ticket's moment.
func (t Ticket) State() ledger.State { return t.Row.StateAt(t.Now) }
func (t Ticket) Lane() ledger.Lane   { return t.Row.LaneAt(t.Now) }

func (t Ticket) Title() safe.Text {
	return safe.Of(cmp.Or(t.Row.Title, t.Row.Pricing.Title, t.Row.Kind+" "+t.Row.Key))
}

// Target is the thing acted on; empty where the kind names none, and the request itself is it.
func (t Ticket) Target() safe.Text {
	return safe.Of(cmp.Or(ledger.NamedTarget(t.Row.Target), t.Row.Pricing.Target))
}

func (t Ticket) Kind() safe.Text { return safe.Of(t.Row.Kind) }

// Pipeline is who sends it, in a sentence.
func (t Ticket) Pipeline() safe.Text {
	return safe.Of(cmp.Or(t.Row.Source.Pipeline, "its pipeline"))
}

// Input is what was asked for, as lines of JSON; none where nothing was.
func Input(in json.RawMessage) []safe.Text {
	if len(in) == 0 || string(in) == "null" {
		return nil
	}
	var b bytes.Buffer
	if json.Indent(&b, in, "", "  ") != nil {
		b.Reset()
		b.Write(in)
	}
	return Body(b.String())
}

// Body is a text that is or was sent, line by line.
func Body(text string) []safe.Text {
	of := safe.Of
	if json.Valid([]byte(text)) {
		of = safe.JSON
	}
	return ledger.Each(strings.Split(text, "\n"), of)
}

// Source is where it came from: a pipeline, its run and its machine.
func Source(s ledger.Source) safe.Text {
	out := safe.Of(cmp.Or(s.Pipeline, "unknown pipeline"))
	if s.Run != "" {
		out = safe.Say("%s %s", out, s.Run)
	}
	if s.Host != "" {
		out = safe.Say("%s on %s", out, s.Host)
	}
	return out
}

// Age is the AGE column: since it was first in doubt, else since it began.
func (t Ticket) Age() time.Duration {
	return t.Now.Sub(cmp.Or(t.Row.DoubtedAt, t.Row.CreatedAt))
}

func (t Ticket) at(m time.Time) string { return Moment(m, t.Now, t.Zone) }

// Facts is what the policy in force says about one operation now, reduced to
// what the screen shows.
type Facts struct {
	Advice advice.Advice
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
			Via:       k.Via(rec),
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
