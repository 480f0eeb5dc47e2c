package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
	"indoubt/ui/console/detail"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
)

func newShowCommand(a *base.App) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", GroupID: base.GroupLook,
		Short: "Show one operation: what was meant, what was seen, what is known, what to do",
		Args:  base.Exactly("an id"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return showOne(cmd.Context(), a, args[0]) },
	}
}

const maxEvents = 1000

func showOne(ctx context.Context, a *base.App, id string) error {
	s, err := base.LookedAt(ctx, a)
	if err != nil {
		return err
	}
	rec, err := base.ReadRecord(ctx, a, s, id)
	if err != nil {
		return err
	}
	events, err := s.History(ctx, ledger.HistoryQuery{Operation: rec.Operation.ID, Limit: maxEvents})
	if err != nil {
		return err
	}
	v := base.See(a.PolicyToLookBy(), rec)
	v.Events = events
	return a.Done("", base.HistoryJSON(v), func(w *safe.Writer) {
		f := &draw.Frame{Theme: &draw.Theme{}, Now: v.Now, Zone: v.Zone}
		for _, line := range detail.Lines(f, v, cmp.Or(a.Width(), base.Whole), 0) {
			fmt.Fprintln(w, strings.TrimRight(line, " "))
		}
	})
}
