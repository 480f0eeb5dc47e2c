package cli

import (
	"context"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ui/ticket"
)

// deriver is a store that keeps something beside its history.
type deriver interface {
	Deviations(ctx context.Context) ([]ledger.Deviation, error)
}

// derived compares what the ledger keeps beside its history with the history: a
// list that misses an operation in doubt hides it.
func (x *examination) derived(ctx context.Context, s ledger.Store) {
	kept, ok := s.(deriver)
	if !ok {
		return
	}
	deviations, err := kept.Deviations(ctx)
	if err != nil {
		x.broken("derived", err)
		return
	}
	if len(deviations) == 0 {
		x.ok("derived", "the list and the counts are what the history says")
		return
	}
	wrong := ledger.Each(deviations, func(d ledger.Deviation) string {
		return fmt.Sprintf("%s has %s (%s)", d.Table, ticket.Plural(d.Rows, "wrong row", "wrong rows"), d.One)
	})
	x.say("derived", ledger.LevelFail, strings.Join(wrong, "; "),
		"somebody wrote past the guards: indoubt log ID says how it came to stand there; restore a backup")
}
