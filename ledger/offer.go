package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// OfferRequest is an attempt as it was begun, and may have been sent. Its ledger may have
// lost it since: its database failed over, or was restored.
type OfferRequest struct {
	ChangeID  string // of the begin
	Operation Operation
	Attempt   Attempt
	Marks     []string
	Actor     Actor
}

// OfferOf is what a begin has recorded.
func OfferOf(req BeginRequest, res BeginResult) OfferRequest {
	a := res.Attempt
	a.OperationID, a.Actor = res.Operation.ID, req.Actor.Name
	return OfferRequest{ChangeID: req.ChangeID, Operation: res.Operation, Attempt: a, Marks: req.Marks.Values, Actor: req.Actor}
}

// Offer records the attempt again where the ledger does not have it; what is there stays as
// it is. Where another operation has the key, or another attempt is in its place, it becomes
// an operation of its own beside that.
func Offer(ctx context.Context, s Changer, req OfferRequest) (Applied, error) {
	o := req.Operation
	applied, err := s.Change(ctx, Locator{ID: o.ID, Skip: AllParts}, req.ChangeID, req.offer)
	if errors.Is(err, ErrMoved) || errors.Is(err, ErrGuard) {
		return s.Change(ctx, Locator{Kind: o.Kind, Scope: o.Scope, Key: o.Key, Skip: AllParts}, req.ChangeID, req.offerBeside)
	}
	return applied, err
}

// offered is the change that records an attempt again.
func (req OfferRequest) offered(a Attempt, why string) Change {
	return Change{Offered: true, Attempts: []Attempt{a}, Event: &Event{ID: req.ChangeID, Verb: "offer", Actor: req.Actor, Reason: why,
		Detail: detail(map[string]any{"attempt": a.ID, "n": a.N, "basis": string(a.Basis), "sender": a.Sender})}}
}

func (req OfferRequest) offer(rec *Record) (Change, error) {
	o, a := req.Operation, req.Attempt
	why := fmt.Sprintf("attempt %d, which was sent before and is recorded again", a.N)
	c := req.offered(a, why)
	switch {
	case rec.Found && rec.Attempt(a.ID) != nil:
		return Change{}, nil
	case !rec.Found && a.N == 1:
		c.Operation, c.Insert, c.Marks = &o, true, req.Marks
		return c, nil
	case !rec.Found || rec.Operation.State == Pending || rec.Operation.AttemptCount != a.N-1:
		return Change{}, moved(rec, "offer", 0, true)
	}
	o = rec.Operation
	for _, g := range rec.Grants {
		if g.ID == a.GrantID && g.ConsumedAt.IsZero() && g.VoidedAt.IsZero() {
			g.ConsumedAt, g.AttemptID = rec.Now, a.ID
			c.Grants = []Grant{g}
		}
	}
	if len(c.Grants) == 0 && a.GrantID != "" { // what allowed it is lost, too
		c.Grants = append(voided(rec, "another attempt was sent"), Grant{ID: a.GrantID, OperationID: o.ID, Version: o.Version, Basis: a.Basis, Sender: a.Sender, KeyWorks: a.KeyWorks,
			Actor: req.Actor.Name, Reason: why, CreatedAt: rec.Now, CreatedSteady: rec.Steady, ExpiresAt: rec.Now.Add(MinDeadline), ConsumedAt: rec.Now, AttemptID: a.ID})
	}
	start(&o, a, rec.Now)
	note(rec, &o, req.Actor, why)
	c.Operation = &o
	return c, nil
}

// offerBeside records the attempt as an operation that never had its key: another one was
// begun under it, or was sent again, while the ledger had lost this one. What both did may
// have happened twice, but not where the other side knows both by the key.
func (req OfferRequest) offerBeside(rec *Record) (Change, error) {
	was, a := req.Operation, req.Attempt
	o := Operation{
		ID: was.ID, Kind: was.Kind, Scope: was.Scope, Key: was.Key, KeyLive: !rec.Found, Token: was.Token, Fingerprint: was.Fingerprint,
		Title: was.Title, Target: was.Target, KeyFields: was.KeyFields, Input: was.Input, Redacted: was.Redacted, Command: was.Command,
		Source: was.Source, Session: was.Session, Request: was.Request, TTL: was.TTL, CreatedAt: was.CreatedAt,
	}
	if len(req.Marks) > 0 { // else an engine makes them
		o.MarkRules = was.MarkRules
	}
	why := fmt.Sprintf("attempt %d of %s, which was sent before and is recorded again", a.N, was.ID)
	if a.N > 1 {
		o.ID, o.CreatedAt = DeriveID(a.ID, "operation"), a.StartedAt
	}
	a.OperationID, a.N, a.Basis, a.GrantID = o.ID, 1, "", ""
	if rec.Found {
		why += fmt.Sprintf(" beside %s, which has its key", rec.Operation.ID)
		a.Basis = BasisRiskAccepted
		if a.KeyWorks && !slices.ContainsFunc(rec.Attempts, func(b Attempt) bool { return !b.KeyWorks && !b.NoEffect() }) {
			a.Basis = BasisKeySafe
		}
	}
	start(&o, a, a.StartedAt)
	note(rec, &o, req.Actor, why)
	c := req.offered(a, why)
	c.Operation, c.Insert, c.Marks = &o, true, req.Marks
	return c, nil
}
