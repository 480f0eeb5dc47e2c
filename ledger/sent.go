package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Sent is an attempt as the process that began it remembers it.
type Sent struct {
	ChangeID  string // of the begin
	Operation Operation
	Attempt   Attempt
	Marks     []string
	Actor     Actor
	Awaits    bool // its caller says when the answer was delivered
}

// SentOf is what a begin has recorded.
func SentOf(req BeginRequest, res BeginResult) Sent {
	return Sent{ChangeID: req.ChangeID, Operation: res.Operation, Attempt: res.Attempt, Marks: req.Marks.Values, Actor: req.Actor,
		Awaits: req.AwaitsDelivery}
}

// SettleSent is Settle for who remembers the begin. A ledger that has lost it, because its
// database failed over or was restored, gets the whole operation: the begin and its
// outcome, in one change. Where another operation has the key by then, it is recorded as
// one that has given its key up; where that is looked for first because this one may have
// been lost, this is what became of it.
func SettleSent(ctx context.Context, s Changer, sent Sent, req SettleRequest) (Applied, error) {
	applied, err := Settle(ctx, s, req)
	if !errors.Is(err, ErrNotFound) || sent.Attempt.ID != req.AttemptID {
		return applied, err
	}
	o := sent.Operation
	moved, failed := s.Change(ctx, Locator{ID: o.ID}, req.ChangeID, func(rec *Record) (Change, error) {
		if !rec.Found || rec.Operation.Moved == "" {
			return Change{}, ErrNotFound
		}
		req := req
		req.AttemptID = rec.Attempts[0].ID // the one that it had is in the file
		return settle(rec, req)
	})
	if !errors.Is(failed, ErrNotFound) {
		return moved, failed
	}
	known, failed := s.Change(ctx, ByName(o.Kind, o.Scope, o.Key), req.ChangeID, func(rec *Record) (Change, error) {
		req := req
		// Where it failed, another one may have landed that was lost with it.
		if req.AttemptID = sent.forgotten(rec); req.AttemptID == "" || req.Outcome == OutcomeFailed {
			return Change{}, ErrNotFound
		}
		return settle(rec, req)
	})
	if !errors.Is(failed, ErrNotFound) {
		return known, failed
	}
	at := Locator{Kind: o.Kind, Scope: o.Scope, Key: o.Key, Gate: o.Gate}
	whole, failed := s.Change(ctx, at, sent.ChangeID, func(rec *Record) (Change, error) {
		return sent.whole(rec, req), nil
	})
	if failed == nil && whole.Noop { // its begin is in the history: it was not lost
		return applied, err
	}
	return whole, failed
}

// forgotten is the attempt that stands for this one in a ledger that has lost it, "" where there is none; see Look.
func (sent Sent) forgotten(rec *Record) string {
	i := slices.IndexFunc(rec.Attempts, func(a Attempt) bool { return a.Sender == SenderForgotten })
	if i < 0 || rec.Operation.Token != sent.Operation.Token {
		return ""
	}
	return rec.Attempts[i].ID
}

// Anew is the id of the operation that a further attempt becomes.
func Anew(attemptID string) string { return DeriveID(attemptID, "operation") }

// whole makes the operation anew, as it was before it was sent, and settles it. What a
// further attempt did becomes an operation of its own.
func (sent Sent) whole(rec *Record, req SettleRequest) Change {
	was, a := sent.Operation, sent.Attempt
	o := Operation{
		ID: was.ID, Kind: was.Kind, Scope: was.Scope, Key: was.Key, SentKey: was.SentKey, KeyLive: !rec.Found, Token: was.Token, Fingerprint: was.Fingerprint,
		Title: was.Title, Target: was.Target, Input: was.Input, Redacted: was.Redacted, Command: was.Command,
		Source: was.Source, Session: was.Session, Request: was.Request, TTL: was.TTL, Undelivered: was.Undelivered, CreatedAt: was.CreatedAt,
	}
	if rec.Open == nil {
		o.Gate = was.Gate
	}
	if len(sent.Marks) > 0 { // else an engine makes them
		o.MarkRules = was.MarkRules
	}
	why := fmt.Sprintf("attempt %d of %s, which was begun before and is recorded again", a.N, was.ID)
	if a.N > 1 {
		o.ID, o.CreatedAt = Anew(a.ID), a.StartedAt
	}
	if a.AllowID != "" {
		a.Basis, a.AllowID = "", "" // what allowed it belongs to the other operation
	}
	holder := rec.holder()
	if holder != nil {
		why += fmt.Sprintf(" beside %s, which has its key", holder.ID)
		a.Basis = BasisRiskAccepted
		if a.KeyWorks && !slices.ContainsFunc(rec.Attempts, func(b Attempt) bool { return !b.KeyWorks && !b.NoEffect() }) {
			a.Basis = BasisKeySafe
		}
	}
	a.OperationID, a.N, a.Actor = o.ID, 1, sent.Actor.Name
	start(&o, a, a.StartedAt)
	note(rec, &o, sent.Actor, why)
	return Change{Operation: &o, Insert: true, Marks: sent.Marks, Attempts: []Attempt{a},
		Event: &Event{ID: sent.ChangeID, Verb: "begin", Actor: sent.Actor, Reason: why,
			Detail: detail(map[string]any{"attempt": a.ID, "n": a.N, "basis": string(a.Basis), "sender": a.Sender})},
		Then: func(rec *Record) (Change, error) {
			rec.Holder = holder
			return settle(rec, req)
		}}
}
