package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

type outageCommand struct{ *base.App }

func newOutageCommand(a *base.App) *cobra.Command {
	cmd := base.Grouped(&cobra.Command{
		Use: "outage", GroupID: base.GroupLook,
		Short: "Look at errors that came together, and say who is on it",
		Long: `Errors of one downstream that come close together are one outage, a record of
the ledger: errors = landed + did not land + being checked + to look at + refused +
left, at every moment. An outage grows, is quiet, and is over.`,
	})
	var limit int
	list := &cobra.Command{
		Use: "list", Short: "List outages, by their newest error",
		Example: "  indoubt outage list\n  indoubt outage list --json | jq -r '.data.outages[] | select(.phase == \"growing\").id'",
		Args:    base.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return outageCommand{a}.list(cmd.Context(), limit)
		},
	}
	list.Flags().IntVar(&limit, "limit", 20, "at most this many")
	show := &cobra.Command{
		Use: "show ID", Short: "Show one outage: its account, what is true and what to do, its history",
		Example: "  indoubt outage show 7f3a\n  indoubt list outage:7f3a",
		Args:    base.Exactly("the ID of an outage"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return outageCommand{a}.show(cmd.Context(), args[0]) },
	}
	var flags decideFlags
	take := &cobra.Command{
		Use: "take ID", Short: "Say that you are on it; it expires, and is never a lock",
		Example: "  indoubt outage take 7f3a --until 1h\n  indoubt outage take 7f3a --until now",
		Args:    base.Exactly("the ID of an outage"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return outageCommand{a}.take(cmd.Context(), args, &flags)
		},
	}
	flags.add(take)
	take.Flags().StringVar(&flags.until, "until", "2h", "a duration (2h), a time of day (06:00) or an RFC 3339 time; now: no longer")
	cmd.AddCommand(list, show, take)
	return cmd
}

func (c outageCommand) list(ctx context.Context, limit int) error {
	if err := base.AtMost(limit); err != nil {
		return err
	}
	s, err := c.LedgerFor(ctx, base.ToLook)
	if err != nil {
		return err
	}
	all, err := s.Outages(ctx, c.Clock(), limit+1)
	if err != nil {
		return err
	}
	all, cut := base.Within(c.App, all, limit)
	if err := s.Sums(ctx, all, c.Clock()); err != nil {
		return err
	}
	rows := base.Each(all, func(in ledger.Outage) outageJSON { return c.asJSON(ledger.OutageAccount{Outage: in}) })
	return c.Done("", map[string]any{"outages": rows, "cut": cut}, func(w *safe.Writer) {
		for _, in := range all {
			o := c.outage(ledger.OutageAccount{Outage: in})
			w.Printf("%s  %s\n          %s", base.Prefix(in.ID, 8), o.Title(), o.Account())
			if by := in.TakenAt(o.Now); by != "" {
				w.Printf("   %s", o.Taken())
			}
			w.Println("")
		}
		if len(all) == 0 {
			w.Println("No outage.")
		}
	})
}

func (c outageCommand) outage(a ledger.OutageAccount) ticket.Outage {
	return ticket.Outage{OutageAccount: a, Now: c.Clock(), Zone: time.Local}
}

func (c outageCommand) show(ctx context.Context, id string) error {
	s, err := c.LedgerFor(ctx, base.ToLook)
	if err != nil {
		return err
	}
	a, err := s.Outage(ctx, id, c.Clock())
	if err != nil {
		return err
	}
	return c.Done("", c.shown(a), func(w *safe.Writer) { fmt.Fprint(w, c.outage(a).Markdown()) })
}

// take says that a person is on an outage, or no longer.
func (c outageCommand) take(ctx context.Context, args []string, flags *decideFlags) error {
	run, err := holdCommand(c).scoped(ctx, "outage take", args, needs{silent: true}, flags, nil)
	if err != nil {
		return err
	}
	change := ledger.OutageChange{ID: args[0], Verb: ledger.OutageTaken, ChangeID: run.Record.ChangeID(run.Items[0]), Actor: run.actor, Reason: flags.reason}
	if flags.until == "now" {
		change.Until = run.Record.CreatedAt
	} else if change.Until, err = until(flags.until, run.Record.CreatedAt); err != nil {
		return err
	}
	a, err := run.store.Outage(ctx, change.ID, c.Clock())
	if err != nil {
		return err
	}
	effect := base.EffectOf(false, flags.dryRun)
	switch {
	case flags.dryRun:
		a.Outage, _, err = change.Apply(a.Outage, c.Clock())
	case run.Record.Done() > 0:
		effect = base.EffectNoop
	default:
		a.Outage, err = run.store.ChangeOutage(ctx, change)
	}
	if err != nil {
		return err
	}
	run.carry(ctx)
	return c.Done(effect, c.asJSON(a), func(w *safe.Writer) {
		o := c.outage(a)
		w.Printf("%s  %s: %s, %s\n", base.Prefix(a.ID, 8), effect, o.Title(), o.Taken())
	})
}

type outageJSON struct {
	ID         string                     `json:"id"`
	Title      string                     `json:"title"`
	Scope      string                     `json:"scope"`
	Phase      ledger.Phase               `json:"phase"`
	Kinds      []string                   `json:"kinds"`
	Pipelines  []string                   `json:"pipelines"`
	Classes    []string                   `json:"error_classes"`
	Errors     int                        `json:"errors"`
	Fates      map[ledger.Fate]ledger.Sum `json:"fates"`
	Account    string                     `json:"account"`
	Twice      string                     `json:"twice"`
	OpenedAt   *string                    `json:"opened_at"`
	FirstAt    *string                    `json:"first_at"`
	LastAt     *string                    `json:"last_at"`
	AnsweredAt *string                    `json:"answered_at"`
	OverAt     *string                    `json:"over_at"`
	TakenBy    *string                    `json:"taken_by"`
	TakenUntil *string                    `json:"taken_until"`
}

func (c outageCommand) asJSON(a ledger.OutageAccount) outageJSON {
	o := c.outage(a)
	twice, _ := o.Twice()
	j := outageJSON{ID: a.ID, Title: o.Title().String(), Scope: a.Scope, Phase: a.PhaseAt(o.Now),
		Kinds: base.List(a.Kinds), Pipelines: base.List(a.Pipelines), Classes: base.List(a.Classes), Errors: a.Errors(), Fates: map[ledger.Fate]ledger.Sum{},
		Account: o.Account().String(), Twice: twice.String(), OpenedAt: base.Moment(a.OpenedAt), FirstAt: base.Moment(a.FirstAt), LastAt: base.Moment(a.LastAt),
		AnsweredAt: base.Moment(a.AnsweredAt), OverAt: base.Moment(a.OverAt)}
	if by := a.TakenAt(o.Now); by != "" {
		j.TakenBy, j.TakenUntil = base.Text(by), base.Moment(a.TakenUntil)
	}
	for _, f := range ledger.Fates {
		j.Fates[f] = a.Fates[f]
	}
	return j
}

type outageGroupJSON struct {
	Name   ledger.Group `json:"name"`
	True   string       `json:"true"`
	Do     string       `json:"do"`
	Filter string       `json:"filter"`
	Tab    ledger.Tab   `json:"tab"`
	Sum    ledger.Sum   `json:"sum"`
}

func (c outageCommand) shown(a ledger.OutageAccount) any {
	return struct {
		outageJSON
		Already   int               `json:"already"`
		CheckedAt *string           `json:"checked_at"`
		Groups    []outageGroupJSON `json:"groups"`
		Events    []ledger.Event    `json:"events"`
	}{c.asJSON(a), a.Already, base.Moment(a.CheckedAt), base.Each(c.outage(a).Groups(), func(g ticket.Group) outageGroupJSON {
		return outageGroupJSON{g.Name, g.True.String(), g.Do.String(), g.Filter, g.Tab, g.Sum}
	}), base.Each(a.Events, base.EventJSON)}
}
