package cli

import (
	"cmp"
	"context"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/ticket"
)

// view is one operation as the commands show it: its ticket under the policy in
// force. A ledger may have been priced by another policy, or by none.
type view struct {
	ticket.Ticket
	kind  *policy.Kind
	state ledger.State // as everybody must read it now
	lane  ledger.Lane
}

func see(p *policy.Policy, rec ledger.Record) view {
	if rec.Now.IsZero() {
		rec.Now = time.Now()
	}
	rec.Operation.State = rec.State()
	rec.Pricing = p.Kind(rec.Operation.Kind).Price(rec)
	v := view{Ticket: ticket.From(rec, ticket.ByPolicy(func() *policy.Policy { return p }), time.Local), state: rec.Operation.State}
	v.kind, _ = p.Kind(rec.Operation.Kind).Checkable(rec)
	v.lane = v.Row.LaneAt(v.Now)
	return v
}

// title is what the operation is called.
func (v view) title() string { return titleOf(*v.Record) }

func titleOf(rec ledger.Record) string {
	return cmp.Or(rec.Pricing.Title, rec.Operation.Title, rec.Operation.Kind)
}

func (v view) target() string {
	if v.Record.Pricing.Target != "" {
		return v.Record.Pricing.Target
	}
	return v.Record.Operation.Target
}

// views reads the records behind rows, in the rows' order. A row that went
// away meanwhile is left out.
func views(ctx context.Context, s ledger.Store, p *policy.Policy, rows []ledger.Row) ([]view, error) {
	out := make([]view, 0, len(rows))
	for _, r := range rows {
		rec, err := s.Read(ctx, ledger.Locator{ID: r.ID})
		if err != nil {
			return nil, err
		}
		out = append(out, see(p, rec))
	}
	return out, nil
}
