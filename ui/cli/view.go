package cli

import (
	"context"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/ticket"
)

// see is what is told about a record under the policy that is given.
func see(p *policy.Policy, rec ledger.Record) ticket.Ticket {
	if rec.Now.IsZero() {
		rec.Now = time.Now()
	}
	return ticket.From(rec, ticket.ByPolicy(func() *policy.Policy { return p }), rec.Now, time.Local)
}

// tickets reads the records behind rows, in the rows' order.
func tickets(ctx context.Context, s ledger.Reader, p *policy.Policy, rows []ledger.Row) ([]ticket.Ticket, error) {
	out := make([]ticket.Ticket, 0, len(rows))
	for _, r := range rows {
		rec, err := s.Read(ctx, ledger.Locator{ID: r.ID})
		if err != nil {
			return nil, err
		}
		out = append(out, see(p, rec))
	}
	return out, nil
}
