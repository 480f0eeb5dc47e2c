package reconcile

import (
	"context"
	"strings"

	"indoubt/ledger"
)

// Plan says what a retry of the operation would do now. It changes nothing and
// makes no read, so it works read-only too. Plan.Refused says why a person could
// not; an error means that nothing can be said. Errors: ErrNotFound.
func (e *Engine) Plan(ctx context.Context, id string) (Plan, error) {
	if !e.o.ReadOnly {
		_ = e.markAll(ctx) // the retry marks what this leaves
	}
	rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: id})
	if err != nil {
		return Plan{}, err
	}
	rec = asOf(rec, e.moment())
	now := rec.Now
	k := e.policy().Kind(rec.Operation.Kind)
	p := Plan{Record: rec, FirstCheck: k.NoCheck(rec) == nil,
		Attempt: rec.Operation.AttemptCount + 1, Loss: k.Advise(rec, now).Duplicate}
	p.Basis, p.Why, p.LapsesAt = k.AllowedBasis(rec, now)
	a := &attempt{k: k, rec: rec, basis: p.Basis, until: p.LapsesAt, q: RetryRequest{
		ID: rec.Operation.ID, Version: rec.Operation.Version, LossTyped: true,
		ChangeID: "plan", Reason: "plan", Actor: ledger.Actor{Name: e.o.Actor.Name, Terminal: true},
	}}
	p.Showing = e.showing(ctx, a)
	a.q.Showing, p.Sender = p.Showing, a.via
	if p.WillSend, p.Body, _ = strings.Cut(p.Showing.Text, "\n"); p.Sender == "pipeline" {
		p.Body, p.Back = "", a.back
	}
	if e.o.ReadOnly {
		p.Refused = refuse("read_only", "this program was started read-only", "start it without --read-only")
		return p, nil
	}
	if _, err := a.grant().Rule()(&a.rec); err != nil {
		p.Refused = err
	}
	return p, nil
}

// Still refuses a retry that was planned before and would be another one now. Errors:
// *RefusedError (code basis), *ChangedError.
func (p Plan) Still(basis ledger.Basis, shown Showing) error {
	switch {
	case stronger(basis, p.Basis):
		return lapsed(p.Why)
	case shown.Digest != p.Showing.Digest:
		return &ChangedError{ID: p.Record.Operation.ID, Was: shown.Text, Is: p.Showing.Text}
	}
	return nil
}

func lapsed(why string) error {
	return refuse("refused", "what allowed it has lapsed: "+why, "look again")
}
