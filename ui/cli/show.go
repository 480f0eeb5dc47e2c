package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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
	rec, err := readRecord(ctx, a, s, id)
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

// readRecord finds one operation by its id, as its writer wrote it, or the beginning of
// that. A copied ID@VERSION names the operation too.
func readRecord(ctx context.Context, a *base.App, s ledger.Reader, id string) (ledger.Record, error) {
	id = strings.TrimSpace(id)
	if id == "" {
		return ledger.Record{}, base.Usage("an id is empty", "`indoubt list` prints ids")
	}
	rec, err := s.Read(ctx, ledger.Locator{ID: id})
	if before, _, versioned := cutVersion(id); errors.Is(err, ledger.ErrNotFound) && versioned && before != "" {
		rec, err = s.Read(ctx, ledger.Locator{ID: before})
	}
	switch {
	case !errors.Is(err, ledger.ErrNotFound):
		return rec, err
	case len(id) < 4:
		return rec, base.Usage(fmt.Sprintf("%q is too short for the beginning of an id", id), "write at least 4 characters of it")
	}
	return rec, &base.Failure{Code: "not_found", Message: fmt.Sprintf("there is no operation %q", id),
		Hint: "see `indoubt list`, or check --ledger / INDOUBT_LEDGER", Cause: err}
}

// cutVersion takes ID@VERSION apart. An id may have an @ of its own.
func cutVersion(arg string) (id string, version int64, given bool) {
	if i := strings.LastIndexByte(arg, '@'); i >= 0 {
		if n, err := strconv.ParseInt(arg[i+1:], 10, 64); err == nil {
			return arg[:i], n, true
		}
	}
	return arg, 0, false
}

// clockTime is a time in the reader's zone.
func clockTime(t time.Time) string {
	switch {
	case t.IsZero():
		return "–"
	case !t.Before(ledger.Never):
		return "for ever"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}
