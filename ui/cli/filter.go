package cli

import (
	"context"
	"time"

	"indoubt/ledger"
	"indoubt/ui/ticket"
)

// readFilter reads a filter, and lets the policy say where kinds are sent.
func readFilter(a *app, text string) (ledger.Filter, error) {
	f, err := ledger.ParseFilter(text)
	if p := a.policyToLookBy(); !p.Empty() {
		f.DownstreamOf = p.DownstreamOf
	}
	return f, err
}

// leavesOut says what a filter does not answer for: fields that are known of open
// operations only, and operations that are archived and may have changed since a time.
func leavesOut(ctx context.Context, s ledger.Archiver, f ledger.Filter, since time.Time) (notes []string, archived int, err error) {
	for _, field := range f.OpenOnly() {
		notes = append(notes, map[string]string{"cost": "cost: settled operations have none here, and count as 0",
			"downstream": "downstream: settled operations are left out, for no policy here says where their kinds are sent: --policy"}[field])
	}
	if archived, err = archivedSince(ctx, s, since); archived > 0 {
		notes = append(notes, ticket.Archived(archived).String())
	}
	if !f.By(func(string) string { return "" }).Settles() { // it asks for none of them
		notes = nil
	}
	return notes, archived, err
}
