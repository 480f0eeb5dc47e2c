package cli

import (
	"context"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/ticket"
)

func see(p *policy.Policy, rec ledger.Record) ticket.Ticket {
	if rec.Now.IsZero() {
		rec.Now = time.Now()
	}
	return ticket.From(rec, ticket.ByPolicy(func() *policy.Policy { return p }), rec.Now, time.Local)
}

// tickets reads the records behind rows, in the rows' order, without the evidence of
// their reads.
func tickets(ctx context.Context, s ledger.Reader, p *policy.Policy, rows []ledger.Row) ([]ticket.Ticket, error) {
	records, err := s.Records(ctx, each(rows, func(r ledger.Row) string { return r.ID }))
	return each(records, func(rec ledger.Record) ticket.Ticket { return see(p, rec) }), err
}
