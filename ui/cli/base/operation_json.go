package base

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ui/ticket"
)

// OperationJSON is an operation as every command prints it. What is not known
// is null, never an empty word; the fields are a public contract.
type OperationJSON struct {
	ID      string          `json:"id"`
	Kind    string          `json:"kind"`
	Title   string          `json:"title"`
	Target  *string         `json:"target"`
	State   ledger.State    `json:"state"`
	Fact    *string         `json:"fact"` // of an abandoned one
	Lane    ledger.Lane     `json:"lane"`
	Version int64           `json:"version"`
	Key     string          `json:"key"`
	Token   *string         `json:"token"`
	Input   json.RawMessage `json:"input"`
	Source  ledger.Source   `json:"source"`
	Session *string         `json:"session"`
	Actor   string          `json:"actor"`
	Receipt *string         `json:"receipt"`
	Result  json.RawMessage `json:"result"`
	goneJSON
	Effects     int         `json:"effects"`
	ErrorClass  *string     `json:"error_class"`
	Conflict    *string     `json:"conflict"`
	ParkedUntil *string     `json:"parked_until"`
	CreatedAt   *string     `json:"created_at"`
	UpdatedAt   *string     `json:"updated_at"`
	DeadlineAt  *string     `json:"deadline_at"`
	Cost        CostJSON    `json:"cost"`
	Odds        *OddsJSON   `json:"odds"`
	Advice      *AdviceJSON `json:"advice"`
	SafeUntil   *string     `json:"safe_until"`
	ProofAt     *string     `json:"proof_at"`
	Link        *string     `json:"link"`
}

// goneJSON says what of the operation the ledger does not hold any more.
type goneJSON struct {
	Redacted *redactedJSON `json:"redacted,omitempty"`
	Moved    string        `json:"moved,omitempty"` // the file that has its history
}

// redactedJSON says who took out what the operation said.
type redactedJSON struct {
	By string  `json:"by"`
	At *string `json:"at"`
}

// CostJSON is what a duplicate and a miss would cost.
type CostJSON struct {
	Duplicate float64 `json:"duplicate"`
	Miss      float64 `json:"miss"`
}

// OddsJSON is how likely it landed, and on how many cases that rests.
type OddsJSON struct {
	P    float64 `json:"p"`
	N    int     `json:"n"`      // cases of its own kind
	More int     `json:"others"` // cases of other kinds
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// AdviceJSON is what to do now, and why.
type AdviceJSON struct {
	Verb   string `json:"verb"`
	Reason string `json:"reason"`
}

// AsJSON is the operation of a ticket. Odds, safe_until and proof_at are facts
// about doubt: they are null once it is settled.
func AsJSON(v ticket.Ticket) OperationJSON {
	o, state, lane := &v.Record.Operation, v.State(), v.Lane()
	out := OperationJSON{
		ID: o.ID, Kind: o.Kind, Title: o.Title, Target: Text(ledger.NamedTarget(o.Target)), State: state,
		Fact: Text(string(o.Fact)), Lane: lane, Version: o.Version,
		Key: o.KeyToSend(), Token: Text(o.Token), Input: raw(o.Input), Source: o.Source, Session: Text(o.Session),
		Actor: o.Actor, Receipt: Text(o.Receipt()), Result: raw(o.Result), Effects: o.Effects, ErrorClass: Text(string(o.ErrorClass)),
		Conflict: Text(string(o.Conflict)), ParkedUntil: Moment(o.ParkedUntil),
		CreatedAt: Moment(o.CreatedAt), UpdatedAt: Moment(o.UpdatedAt),
		DeadlineAt: Moment(o.DeadlineAt), Link: Text(v.Facts.Link), goneJSON: goneJSON{Moved: o.Moved},
		Cost: CostJSON{Number(v.Record.Pricing.Duplicate.Value), Number(v.Record.Pricing.Miss.Value)},
	}
	if !o.RedactedAt.IsZero() {
		out.Redacted = &redactedJSON{o.RedactedBy, Moment(o.RedactedAt)}
	}
	if state == ledger.Uncertain {
		o := v.Facts.Advice.Odds
		out.Odds = &OddsJSON{chance(o.P), o.Own(), o.Others, chance(o.Low), chance(o.High)}
	}
	if a := v.Facts.Advice; a.Verb != "" && lane != ledger.LaneResolved {
		out.Advice = &AdviceJSON{a.Verb, a.Reason}
	}
	if state == ledger.Uncertain || lane == ledger.LaneNotLanded {
		out.SafeUntil = Moment(v.Facts.SafeUntil)
	}
	if state == ledger.Uncertain {
		out.ProofAt = Moment(v.Facts.ProofAt)
	}
	return out
}

// ShowJSON is the operation with its history, oldest first.
type ShowJSON struct {
	OperationJSON
	Attempts []ledger.Attempt `json:"attempts"`
	Reads    []ledger.Read    `json:"reads"`
	Events   []ledger.Event   `json:"events"`
}

// HistoryJSON is the operation of a ticket with its attempts, reads and events.
func HistoryJSON(v ticket.Ticket) ShowJSON {
	reads := Each(v.Record.Reads, ReadJSON)
	slices.Reverse(reads)
	attempts := Each(v.Record.Attempts, func(a ledger.Attempt) ledger.Attempt { a.Result = raw(a.Result); return a })
	return ShowJSON{AsJSON(v), attempts, reads, Each(v.Events, EventJSON)}
}

// ReadJSON is a check without what only the host of its engine can compare.
func ReadJSON(r ledger.Read) ledger.Read {
	r.Evidence, r.Seen = raw(r.Evidence), ledger.Steady{}
	return r
}

// EventJSON is an event as others may see it: the change id of a begin is part of a handle.
func EventJSON(e ledger.Event) ledger.Event {
	e.ID, e.Detail = e.PublicID(), raw(e.Detail)
	return e
}

// Text is nil for the empty string.
func Text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Moment is a time as RFC 3339 in UTC with milliseconds, nil for the zero time.
func Moment(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// raw is stored JSON; text that is not JSON becomes a JSON string.
func raw(b json.RawMessage) json.RawMessage {
	if len(b) > 0 && !json.Valid(b) {
		quoted, _ := json.Marshal(string(b))
		return quoted
	}
	return b
}

// List is never null.
func List[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// Each is a list of what is made of each, never null.
func Each[T, U any](all []T, of func(T) U) []U { return List(ledger.Each(all, of)) }

// Number keeps what JSON cannot say out of it.
func Number(f float64) float64 {
	switch {
	case math.IsNaN(f):
		return 0
	case math.IsInf(f, 0):
		return math.Copysign(math.MaxFloat64, f)
	}
	return f
}

// chance is a probability in ten-thousandths: more digits would claim more
// than is known.
func chance(p float64) float64 { return math.Round(Number(p)*1e4) / 1e4 }
