package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AllowRequest asks for permission for one more attempt, and with AttemptID
// consumes it in the same transaction. A person gives one, and a recorder for its own
// repeat (Own). The caller has worked out the basis from the policy; the rule checks as
// much of it as the ledger knows.
type AllowRequest struct {
	ChangeID, AllowID, OperationID string
	Version                        int64 // as seen (I7)
	Basis                          Basis
	Sender                         string // pipeline, http, command
	KeyWorks                       bool
	Actor                          Actor
	Reason                         string    // needed for risk_accepted
	ExpiresAt                      time.Time // no later than the basis lapses; for a pipeline, how long it may take to come
	Request                        string    // digest of what will be sent, as it was shown
	Related                        []string  // for a risk: the related operations that were shown as landed or may have (I7)

	AttemptID string // not empty: begin the attempt at once
	Own       bool   // its recorder repeats its own request, which it still has whole
	Safe      bool   // with Own: and no repeat can act twice, unless another one acted on its target
	TokenSent bool
	Deadline  time.Duration
	Host      string
	PID       int
	Place     Place
	Tree      Tree // TreeOpen: a command of this process transmits
}

// Allow lets one more attempt (I5, I7). Errors: *MovedError,
// *RefusedError (hold, refused, no_person, incomplete, related,
// redacted), ErrNotFound.
func Allow(ctx context.Context, s Decider, g AllowRequest) (Applied, error) {
	if err := writeDown(ctx, s, g.OperationID, &g.Version); err != nil {
		return Applied{}, err
	}
	return s.Change(ctx, Locator{ID: g.OperationID, Skip: PartPricing}, g.ChangeID, g.Rule())
}

// Rule is the permission as a pure rule.
func (g AllowRequest) Rule() Rule {
	return func(rec *Record) (Change, error) {
		g := g
		return g.allow(seen(rec, &g.Version))
	}
}

func (g AllowRequest) allow(rec *Record) (Change, error) {
	if !rec.Found {
		return Change{}, fmt.Errorf("operation %s: %w", g.OperationID, ErrNotFound)
	}
	if err := g.check(rec); err != nil {
		return Change{}, err
	}
	o := rec.Operation
	permission := Allowed{
		ID: g.AllowID, OperationID: o.ID, Version: o.Version + 1, Basis: g.Basis, Sender: g.Sender, KeyWorks: g.KeyWorks,
		Actor: g.Actor.Name, Reason: strings.TrimSpace(g.Reason), CreatedAt: rec.Now, ExpiresAt: g.ExpiresAt,
	}
	if g.Basis == BasisRiskAccepted {
		for _, rel := range rec.Landings() {
			permission.Related = append(permission.Related, rel.ID)
		}
	}
	why := allowedBecause[g.Basis]
	if permission.Reason != "" {
		why += ": " + permission.Reason
	}
	c := Change{Event: &Event{ID: g.ChangeID, Verb: "allow", Actor: g.Actor, Reason: why}}
	c.Allowed = voided(rec, "replaced by a newer one")
	facts := map[string]any{"allow": g.AllowID, "basis": string(g.Basis), "sender": g.Sender}
	if g.Request != "" {
		facts["request"] = g.Request
	}
	if g.AttemptID == "" {
		o.Version++
		facts["expires_at"] = g.ExpiresAt.UTC().Format(time.RFC3339)
	} else {
		a := Attempt{
			ID: g.AttemptID, OperationID: o.ID, N: o.AttemptCount + 1, Basis: g.Basis, AllowID: g.AllowID, Sender: g.Sender,
			KeyWorks: g.KeyWorks, TokenSent: g.TokenSent, Actor: g.Actor.Name, Host: g.Host, PID: g.PID,
			StartedAt: rec.Now, DeadlineAt: rec.Now.Add(g.Deadline), Place: g.Place, Tree: g.Tree,
		}
		permission.ConsumedAt, permission.AttemptID = rec.Now, a.ID
		start(&o, a, rec.Now)
		c.Attempts = []Attempt{a}
		if c.Event.Verb = "retry"; g.Own {
			c.Event.Verb = "begin"
		}
		facts["attempt"], facts["n"] = a.ID, a.N
	}
	note(rec, &o, g.Actor, why)
	c.Event.Detail = detail(facts)
	c.Operation = &o
	c.Allowed = append(c.Allowed, permission)
	return c, nil
}

// no refuses a retry.
func (g AllowRequest) no(code, why, hint string) error {
	return &RefusedError{Verb: "retry", Code: code, Why: why, Hint: hint}
}

// check refuses a permission that the record does not allow.
func (g AllowRequest) check(rec *Record) error {
	o := rec.Operation
	if err := g.Actor.MaySign("retry"); err != nil {
		return err
	}
	if g.Version != o.Version {
		return moved(rec, "retry", g.Version, false)
	}
	if o.State != Uncertain && o.State != Failed {
		return moved(rec, "retry", g.Version, true)
	}
	if h := rec.HeldBy(); h != nil {
		return g.no("hold", fmt.Sprintf("%s holds %s (%s)", h.Actor.Name, h.Scope, h.Reason), h.Scope.Release())
	}
	if !g.ExpiresAt.After(rec.Now) {
		return g.no("refused", "what allowed it has lapsed", "check again")
	}
	if g.AttemptID != "" && (g.Deadline < MinDeadline || g.Deadline > MaxDeadline) {
		return fmt.Errorf("retry: a deadline of %s is outside %s … %s", g.Deadline, MinDeadline, MaxDeadline)
	}
	if gone := o.Gone(); gone != "" {
		return g.no("redacted", "it was "+gone+", and what it says is not kept", "let its pipeline ask for it anew, under another key")
	}
	if g.AttemptID != "" && o.Redacted && o.Command == nil && !g.Own {
		return g.no("redacted", "parts of its input are not kept, so it cannot be sent from here", "hand it back to its pipeline")
	}
	if err := g.beside(rec); err != nil {
		return err
	}
	if err := g.basisHolds(rec); err != nil {
		return err
	}
	if g.Own {
		return g.repeats(rec)
	}
	return nil
}

// basisHolds refuses a basis that the record or the actor does not give.
func (g AllowRequest) basisHolds(rec *Record) error {
	o := rec.Operation
	if g.Actor.Machine && !(g.Own && g.Basis == BasisKeySafe && g.KeyWorks && g.AttemptID != "") {
		return g.no("no_person", "another send is allowed by a person, and by no machine", "open indoubt and press R")
	}
	switch g.Basis {
	case BasisProof:
		if o.State != Failed || !allProven(o, rec.Attempts) || o.PersonOnly || rec.ProofLost(NotThere) {
			return g.no("refused", "it is not proven that it did not land", "take the risk as a person, or wait for a check")
		}
	case BasisNotSeen:
		_, unseen := Unseen(rec.Reads, len(rec.Attempts))
		if !unseen || o.State != Uncertain || o.PersonOnly || o.Conflict != NoConflict || rec.ProofLost(NotSeen) {
			return g.no("refused", "no check that sees others says that it does not see this one",
				"take the risk as a person, or wait for a check")
		}
	case BasisKeySafe:
	case BasisRiskAccepted:
		if !g.Actor.Terminal {
			return g.no("no_person", "taking the risk needs a person at a terminal", "open indoubt and press R")
		}
		if strings.TrimSpace(g.Reason) == "" {
			return g.no("incomplete", "taking the risk needs a reason", "add --reason TEXT")
		}
	default:
		return fmt.Errorf("retry: basis %q is none of proof, key_safe, not_seen, risk_accepted", g.Basis)
	}
	return nil
}

// repeats refuses a recorder's own repeat of what only a person may send.
func (g AllowRequest) repeats(rec *Record) error {
	switch o := rec.Operation; {
	case o.PersonOnly:
		return g.no("refused", "it was said to have landed, or was undone: only a person settles it", "")
	case o.Conflict != NoConflict:
		return g.no("conflict", "it is in conflict: "+o.ConflictNote, "")
	case g.Safe:
		return nil
	case slices.ContainsFunc(rec.Related, func(rel Relation) bool { return rel.Overtook }):
		return g.no("related", "another operation came later on the same target", "")
	case !o.KeyLive:
		return g.no("related", "another operation has its key", "")
	}
	return nil
}

// beside refuses a retry of what was overtaken: it is a risk, and only of those that the
// person was shown.
func (g AllowRequest) beside(rec *Record) error {
	if g.Safe {
		if rel := rec.Overtaken(); rel != nil {
			return g.no("related", "another one landed or may have: "+rel.says(), "a person may take the risk")
		}
		return nil
	}
	shown, hint := g.Related, "look again"
	if g.Basis != BasisRiskAccepted {
		shown, hint = nil, "a person may take the risk"
	}
	if rel := rec.unseen(shown); rel != nil {
		return &RefusedError{Verb: "retry", Code: "related", Why: "another one landed or may have: " + rel.says(), Hint: hint}
	}
	return nil
}

var allowedBecause = map[Basis]string{
	BasisProof:        "allowed because it did not land",
	BasisNotSeen:      "allowed because a check sees others, and not this one",
	BasisKeySafe:      "allowed because a second send cannot act twice",
	BasisRiskAccepted: "without proof, risk taken",
}
