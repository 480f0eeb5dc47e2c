package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/act"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

func newReportCommand(a *base.App) *cobra.Command {
	var back string
	cmd := &cobra.Command{
		Use: "report [OUTAGE]", GroupID: base.GroupLook,
		Short: "Write a page for a hand-over or a post-mortem",
		Long: `Write a page in Markdown: the account of each outage, what is still open, who
decided what on what evidence, what was found wrong later, what else happened,
and the commands that show it again; of one outage, or of the time since.`,
		Example:           "  indoubt report --since 8h > handover.md\n  indoubt report 7f3a",
		Args:              base.MaxArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := logOptions{since: back, limit: reportEvents}
			if len(args) == 1 {
				if cmd.Flags().Changed("since") {
					return base.Usage("a report is of an outage or of the time since", "leave out --since")
				}
				o.outage = args[0]
			}
			return logCommand{a}.report(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&back, "since", "8h", "how far back it goes, as 30m, 2d or 2026-07-14")
	return cmd
}

const (
	reportEvents  = 20_000 // that a report rests on, the newest
	reportOutages = 20     // that it tells of
	reportAlone   = 20     // operations in none of them, the dearest
)

func (c logCommand) report(ctx context.Context, o logOptions) error {
	from, err := base.Past("since", o.since, c.Clock())
	if err != nil {
		return err
	}
	s, err := c.LedgerFor(ctx, base.ToLook)
	if err != nil {
		return err
	}
	r := ticket.Report{From: from, Now: c.Clock(), Zone: time.Local, Currency: c.PolicyToLookBy().Currency()}
	if o.outage != "" {
		r.From = time.Time{}
	}
	o.from = r.From
	if err := c.of(ctx, s, &o); err != nil {
		return err
	}
	var f ledger.Filter
	r.From = o.from
	since := r.From.In(r.Zone).Format(time.RFC3339)
	r.Again = []string{"indoubt report --since " + since, "indoubt log --limit 1000000 --since " + since, "indoubt list needs:you"}
	if o.outage != "" {
		if f, err = ledger.ParseFilter("outage:" + o.outage); err != nil {
			return err
		}
		r.Again = []string{"indoubt report " + o.outage, "indoubt log --limit 1000000 --outage " + o.outage, "indoubt list outage:" + o.outage}
	}
	if r.Open, err = s.Needing(ctx, f, r.Now); err != nil {
		return err
	}
	if err := c.outages(ctx, s, o, &r); err != nil {
		return err
	}
	if o.outage == "" {
		if r.Alone, r.AloneCut, err = c.alone(ctx, s, r.Now); err != nil {
			return err
		}
	}
	events, _, cut, err := lately(ctx, s, o)
	if err != nil {
		return err
	}
	if r.Cut = cut; cut {
		r.Events, r.Oldest = len(events), events[0].At
	}
	if err := c.runs(ctx, s, o, &r); err != nil {
		return err
	}
	r.Acts, r.Wrong = ticket.Told(events)
	if r.Titles, err = c.names(ctx, s, r.Lines()); err != nil {
		return err
	}
	page := r.Markdown()
	return c.Done("", c.reportJSON(r, page), func(w *safe.Writer) { fmt.Fprint(w, page) })
}

// outages adds those that the report is of: the one asked for, or all that had errors
// or ended in its time or have something to look at, or that is being checked.
func (c logCommand) outages(ctx context.Context, s ledger.Store, o logOptions, r *ticket.Report) error {
	ids := []string{o.outage}
	if o.outage == "" {
		all, err := s.Outages(ctx, r.Now, math.MaxInt32)
		if err == nil {
			err = s.Sums(ctx, all, r.Now)
		}
		if err != nil {
			return err
		}
		ids = nil
		for _, in := range all {
			if in.Fates[ledger.FateChecking].N+in.Fates[ledger.FateOpen].N > 0 || !in.LastAt.Before(r.From) || !in.OverAt.Before(r.From) {
				ids = append(ids, in.ID)
			}
		}
	}
	r.More = max(0, len(ids)-reportOutages)
	for _, id := range ids[:len(ids)-r.More] {
		in, err := s.Outage(ctx, id, r.Now)
		if err != nil {
			return err
		}
		r.Outages = append(r.Outages, outageCommand(c).outage(in))
	}
	return nil
}

// alone is what needs a person and is in no outage, whose account would tell of it.
func (c logCommand) alone(ctx context.Context, s ledger.Store, now time.Time) (dearest []ticket.Ticket, more bool, err error) {
	none, err := ledger.ParseFilter("-outage:" + ledger.AnyOutage)
	if err != nil {
		return nil, false, err
	}
	page, err := s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Filter: none, Order: ledger.OrderLoss, Now: now, Limit: reportAlone})
	if err != nil {
		return nil, false, err
	}
	dearest, err = base.Tickets(ctx, s, c.PolicyToLookBy(), page.Rows)
	return dearest, page.Next != "", err
}

// runs adds the bulk runs of the time, or those over operations of the outage.
func (c logCommand) runs(ctx context.Context, s ledger.Store, o logOptions, r *ticket.Report) error {
	all, err := s.Runs(ctx, ledger.RunQuery{Limit: math.MaxInt32})
	for _, run := range slices.Backward(all) {
		if run.ChangedAt.Before(r.From) && !run.Open() {
			continue
		}
		a, err := act.Read(ctx, s, run.ID)
		if err != nil {
			return err
		}
		if o.outage != "" && run.Terms.Outage != o.outage && !slices.ContainsFunc(a.Items, func(it ledger.RunItem) bool { return o.members[it.OperationID] }) {
			continue
		}
		r.Runs = append(r.Runs, ticket.Run{DecisionRun: run, Ended: safe.Say("%s. %s", runsCommand{App: c.App}.state(run), a.Sum(r.Now))})
	}
	return err
}

func (c logCommand) reportJSON(r ticket.Report, page string) any {
	return map[string]any{"from": base.Moment(r.From), "until": base.Moment(r.Now), "currency": r.Currency, "page": page, "cut": r.Cut, "more": r.More, "again": r.Again,
		"outages": base.Each(r.Outages, func(o ticket.Outage) any { return outageCommand(c).shown(o.OutageAccount) }),
		"runs":    base.Each(r.Runs, func(run ticket.Run) bulkJSON { return runsCommand{App: c.App}.json(run.DecisionRun, nil) }),
		"open":    r.Open}
}
