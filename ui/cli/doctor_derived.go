package cli

import (
	"context"
	"fmt"
	"strings"

	"indoubt/ledger"
)

// deriver is a store that keeps something beside its history, and rebuilder one that can make it
// anew.
type (
	deriver interface {
		Deviations(ctx context.Context) ([]ledger.Deviation, error)
	}
	rebuilder interface {
		Rebuild(ctx context.Context) error
	}
)

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
	var wrong []string
	for _, d := range deviations {
		wrong = append(wrong, fmt.Sprintf("%s has %s wrong %s (%s)", d.Table, ledger.Count(d.Rows), plural(d.Rows, "row", "rows"), d.One))
	}
	do := "somebody wrote past the guards: indoubt log ID says how it came to stand there; restore a backup"
	if _, can := s.(rebuilder); can {
		do = "indoubt doctor --rebuild makes them anew from the history"
	}
	x.say("derived", ledger.LevelFail, strings.Join(wrong, "; "), do)
}

// rebuild makes the list and the counts anew.
func (x *examination) rebuild(ctx context.Context) error {
	if err := x.a.mayChange("rebuild"); err != nil {
		return err
	}
	s, err := x.a.ledgerFor(ctx, toChange)
	if err != nil {
		return err
	}
	if kept, ok := s.(rebuilder); ok {
		return kept.Rebuild(ctx)
	}
	return nil
}
