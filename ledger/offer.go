package ledger

import (
	"context"
	"fmt"
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
// it is. Errors: *MovedError where another attempt is in its place, and those of the store
// where another operation has the key.
func Offer(ctx context.Context, s Changer, req OfferRequest) (Applied, error) {
	return s.Change(ctx, Locator{ID: req.Operation.ID, Skip: AllParts}, req.ChangeID, func(rec *Record) (Change, error) {
		return req.offer(rec)
	})
}

func (req OfferRequest) offer(rec *Record) (Change, error) {
	o, a := req.Operation, req.Attempt
	why := fmt.Sprintf("attempt %d, which was sent before and is recorded again", a.N)
	c := Change{Offered: true, Attempts: []Attempt{a}, Event: &Event{ID: req.ChangeID, Verb: "offer", Actor: req.Actor, Reason: why,
		Detail: detail(map[string]any{"attempt": a.ID, "n": a.N, "basis": string(a.Basis), "sender": a.Sender})}}
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
