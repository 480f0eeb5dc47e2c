package cli

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ui/ticket"
)

// operationJSON is an operation as every command prints it. What is not known
// is null, never an empty word; the fields are a public contract.
type operationJSON struct {
	ID     string  `json:"id"`
	Kind   string  `json:"kind"`
	Title  string  `json:"title"`
	Target *string `json:"target"`
	standsJSON
	Version     int64           `json:"version"`
	Key         string          `json:"key"`
	Token       *string         `json:"token"`
	Fingerprint string          `json:"fingerprint"`
	Input       json.RawMessage `json:"input"`
	Source      ledger.Source   `json:"source"`
	Session     *string         `json:"session"`
	Actor       string          `json:"actor"`
	Receipt     *string         `json:"receipt"`
	Result      json.RawMessage `json:"result"`
	goneJSON
	Effects     int         `json:"effects"`
	ErrorClass  *string     `json:"error_class"`
	Conflict    *string     `json:"conflict"`
	ParkedUntil *string     `json:"parked_until"`
	CreatedAt   *string     `json:"created_at"`
	UpdatedAt   *string     `json:"updated_at"`
	DeadlineAt  *string     `json:"deadline_at"`
	Cost        costJSON    `json:"cost"`
	Odds        *oddsJSON   `json:"odds"`
	Advice      *adviceJSON `json:"advice"`
	SafeUntil   *string     `json:"safe_until"`
	ProofAt     *string     `json:"proof_at"`
	Link        *string     `json:"link"`
}

// standsJSON is where an operation stands.
type standsJSON struct {
	State ledger.State `json:"state"`
	Fact  *string      `json:"fact"` // of an abandoned one
	Lane  ledger.Lane  `json:"lane"`
}

// goneJSON is what the ledger does not have of an operation any more.
type goneJSON struct {
	Redacted *redactedJSON `json:"redacted,omitempty"`
}

type redactedJSON struct {
	By string  `json:"by"`
	At *string `json:"at"`
}

type costJSON struct {
	Duplicate float64 `json:"duplicate"`
	Miss      float64 `json:"miss"`
}

type oddsJSON struct {
	P    float64 `json:"p"`
	N    int     `json:"n"`      // cases of its own kind
	More int     `json:"others"` // cases of other kinds
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

type adviceJSON struct {
	Verb   string `json:"verb"`
	Reason string `json:"reason"`
}

// asJSON is the operation of a ticket. Odds, safe_until and proof_at are facts
// about doubt: they are null once it is settled.
func asJSON(v ticket.Ticket) operationJSON {
	o, state, lane := &v.Record.Operation, v.State(), v.Lane()
	out := operationJSON{
		ID: o.ID, Kind: o.Kind, Title: o.Title, Target: text(ledger.NamedTarget(o.Target)), standsJSON: standsJSON{state, text(string(o.Fact)), lane}, Version: o.Version,
		Key: o.KeyToSend(), Token: text(o.Token), Fingerprint: o.Fingerprint, Input: raw(o.Input), Source: o.Source, Session: text(o.Session),
		Actor: o.Actor, Receipt: text(o.Receipt()), Result: raw(o.Result), Effects: o.Effects, ErrorClass: text(string(o.ErrorClass)),
		Conflict: text(string(o.Conflict)), ParkedUntil: moment(o.ParkedUntil), CreatedAt: moment(o.CreatedAt), UpdatedAt: moment(o.UpdatedAt),
		DeadlineAt: moment(o.DeadlineAt), Link: text(v.Facts.Link),
		Cost: costJSON{number(v.Record.Pricing.Duplicate.Value), number(v.Record.Pricing.Miss.Value)},
	}
	if !o.RedactedAt.IsZero() {
		out.Redacted = &redactedJSON{o.RedactedBy, moment(o.RedactedAt)}
	}
	if state == ledger.Uncertain {
		o := v.Facts.Advice.Odds
		out.Odds = &oddsJSON{chance(o.P), o.Own(), o.Others, chance(o.Low), chance(o.High)}
	}
	if a := v.Facts.Advice; a.Verb != "" && lane != ledger.LaneResolved {
		out.Advice = &adviceJSON{a.Verb, a.Reason}
	}
	if state == ledger.Uncertain || lane == ledger.LaneNotLanded {
		out.SafeUntil = moment(v.Facts.SafeUntil)
	}
	if state == ledger.Uncertain {
		out.ProofAt = moment(v.Facts.ProofAt)
	}
	return out
}

// showJSON is the operation with its history.
type showJSON struct {
	operationJSON
	Attempts []attemptJSON `json:"attempts"`
	Reads    []readJSON    `json:"reads"`
	Grants   []grantJSON   `json:"grants"`
	Events   []eventJSON   `json:"events"`
}

type attemptJSON struct {
	ID          string          `json:"id"`
	N           int             `json:"n"`
	Basis       *string         `json:"basis"`
	Grant       *string         `json:"grant"`
	Sender      string          `json:"sender"`
	KeyWorks    bool            `json:"key_works"`
	TokenSent   bool            `json:"token_sent"`
	Actor       string          `json:"actor"`
	Host        string          `json:"host"`
	PID         int             `json:"pid"`
	StartedAt   *string         `json:"started_at"`
	DeadlineAt  *string         `json:"deadline_at"`
	EndedAt     *string         `json:"ended_at"`
	Outcome     *string         `json:"outcome"`
	Proof       *string         `json:"proof"`
	ErrorClass  *string         `json:"error_class"`
	Error       *string         `json:"error"`
	Status      *int            `json:"status"`
	Receipt     *string         `json:"receipt"`
	Result      json.RawMessage `json:"result"`
	Already     bool            `json:"already"`
	LateOutcome *string         `json:"late_outcome"`
	LateAt      *string         `json:"late_at"`
	LateReceipt *string         `json:"late_receipt"`
	Tree        *string         `json:"tree"`    // open: a process that it started may still write
	TreeAt      *string         `json:"tree_at"` // when they were seen to be gone
}

func attemptsJSON(all []ledger.Attempt) []attemptJSON {
	out := make([]attemptJSON, 0, len(all))
	for _, t := range all {
		j := attemptJSON{
			ID: t.ID, N: t.N, Basis: text(string(t.Basis)), Grant: text(t.GrantID), Sender: t.Sender, KeyWorks: t.KeyWorks, TokenSent: t.TokenSent,
			Actor: t.Actor, Host: t.Host, PID: t.PID, StartedAt: moment(t.StartedAt), DeadlineAt: moment(t.DeadlineAt), EndedAt: moment(t.EndedAt),
			Outcome: text(string(t.Outcome)), Proof: text(string(t.Proof)), ErrorClass: text(string(t.ErrorClass)), Error: text(t.Error),
			Receipt: text(t.Receipt), Result: raw(t.Result), Already: t.Already,
			LateOutcome: text(string(t.LateOutcome)), LateAt: moment(t.LateAt), LateReceipt: text(t.LateReceipt), Tree: text(string(t.Tree)), TreeAt: moment(t.TreeAt),
		}
		if t.Status >= 0 && !t.EndedAt.IsZero() {
			j.Status = &t.Status
		}
		out = append(out, j)
	}
	return out
}

type readJSON struct {
	ID       string          `json:"id"`
	BeganAt  *string         `json:"began_at"`
	EndedAt  *string         `json:"ended_at"`
	Verdict  ledger.Verdict  `json:"verdict"`
	Reason   string          `json:"reason"`
	Found    int             `json:"found"`
	Receipts []string        `json:"receipts"`
	Evidence json.RawMessage `json:"evidence"`
	ProofAt  *string         `json:"proof_at"`
	Digest   string          `json:"digest"`
	Actor    string          `json:"actor"`
}

func oneReadJSON(r ledger.Read) readJSON {
	return readJSON{r.ID, moment(r.BeganAt), moment(r.EndedAt), r.Verdict, r.Reason, r.Found, list(r.Receipts), raw(r.Evidence), moment(r.ProofAt), r.Digest, r.Actor}
}

// readsJSON lists reads oldest first, as everything else in a history.
func readsJSON(all []ledger.Read) []readJSON {
	out := each(all, oneReadJSON)
	slices.Reverse(out)
	return out
}

type grantJSON struct {
	ID         string       `json:"id"`
	Version    int64        `json:"version"`
	Basis      ledger.Basis `json:"basis"`
	Sender     string       `json:"sender"`
	KeyWorks   bool         `json:"key_works"`
	Actor      string       `json:"actor"`
	Reason     *string      `json:"reason"`
	CreatedAt  *string      `json:"created_at"`
	ExpiresAt  *string      `json:"expires_at"`
	ConsumedAt *string      `json:"consumed_at"`
	Attempt    *string      `json:"attempt"`
	VoidedAt   *string      `json:"voided_at"`
	VoidReason *string      `json:"void_reason"`
}

func grantsJSON(all []ledger.Grant) []grantJSON {
	out := each(all, func(g ledger.Grant) grantJSON {
		return grantJSON{g.ID, g.Version, g.Basis, g.Sender, g.KeyWorks, g.Actor, text(g.Reason), moment(g.CreatedAt),
			moment(g.ExpiresAt), moment(g.ConsumedAt), text(g.AttemptID), moment(g.VoidedAt), text(g.VoidReason)}
	})
	slices.Reverse(out)
	return out
}

type eventJSON struct {
	Seq       int64           `json:"seq"`
	ID        string          `json:"id"`
	Operation *string         `json:"operation"`
	Outage    *string         `json:"outage"`
	At        *string         `json:"at"`
	Verb      string          `json:"verb"`
	Actor     ledger.Actor    `json:"actor"`
	Reason    string          `json:"reason"`
	From      *string         `json:"from"`
	To        *string         `json:"to"`
	Version   int64           `json:"version"`
	Detail    json.RawMessage `json:"detail"`
}

func oneEventJSON(e ledger.Event) eventJSON {
	return eventJSON{e.Seq, e.PublicID(), text(e.OperationID), text(e.Outage), moment(e.At), e.Verb, e.Actor, e.Reason, text(string(e.From)), text(string(e.To)), e.Version, raw(e.Detail)}
}

// text is nil for the empty string.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// moment is a time as RFC 3339 in UTC with milliseconds, nil for the zero time.
func moment(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return &s
}

// raw is stored JSON; text that is not JSON becomes a JSON string.
func raw(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	if !json.Valid(b) {
		quoted, _ := json.Marshal(string(b))
		return quoted
	}
	return b
}

// list is never null.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// each is a list of what is made of each, never null.
func each[T, U any](all []T, of func(T) U) []U { return list(ledger.Each(all, of)) }

// number keeps what JSON cannot say out of it.
func number(f float64) float64 {
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
func chance(p float64) float64 { return math.Round(number(p)*1e4) / 1e4 }
