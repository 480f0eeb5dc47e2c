package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

type logCommand struct{ *base.App }

func newLogCommand(a *base.App) *cobra.Command {
	var o logOptions
	var all everything
	cmd := &cobra.Command{
		Use: "log [ID]", GroupID: base.GroupLook,
		Short: "Print the history, one line an event",
		Long: `Print the newest events of the ledger or of one operation, oldest first, one
line an event. --outage has the history of an outage and of what counts in it.
--follow goes on until interrupted; with --json it prints one JSON object a line.
--all -o jsonl prints the whole history, or all of it that the other options let through.`,
		Example:           "  indoubt log --follow\n  indoubt log --since 8h --by maya\n  indoubt log --all -o jsonl --since yesterday | jq -r .verb | sort | uniq -c",
		Args:              base.MaxArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.id = args[0]
			}
			if err := all.check(cmd, "limit", "follow"); err != nil {
				return err
			}
			return logCommand{a}.log(cmd.Context(), o, all)
		},
	}
	f := cmd.Flags()
	all.add(cmd)
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what is to come")
	f.StringVar(&o.since, "since", "", "only events since, as 30m, 2d or 2026-07-14")
	f.StringVar(&o.by, "by", "", "only events of this person or program")
	f.StringVar(&o.outage, "outage", "", "only events of this outage, and of what counts in it")
	f.IntVar(&o.limit, "limit", 100, "at most this many, the newest")
	return cmd
}

type logOptions struct {
	id      string
	follow  bool
	since   string
	from    time.Time
	by      string
	outage  string
	members map[string]bool // the operations that count in it, or do not
	limit   int
}

func (c logCommand) log(ctx context.Context, o logOptions, all everything) error {
	if o.limit < 1 {
		return base.Usage(fmt.Sprintf("--limit %d is not a number of events", o.limit), "")
	}
	if o.since != "" {
		var err error
		if o.from, err = base.Past("since", o.since, c.Clock()); err != nil {
			return err
		}
	}
	s, err := base.LookedAt(ctx, c.App)
	if err != nil {
		return err
	}
	if o.id != "" {
		rec, err := base.ReadRecord(ctx, c.App, s, o.id)
		if err != nil {
			return err
		}
		o.id = rec.Operation.ID
	}
	if err := c.of(ctx, s, &o); err != nil {
		return err
	}
	if all.wanted {
		return all.history(ctx, c.App, s, o)
	}
	var changed <-chan struct{}
	if o.follow { // before the first look, so that nothing falls between
		changed = s.Watch(ctx)
	}
	events, place, cut, err := lately(ctx, s, o)
	if err != nil {
		return err
	}
	if cut {
		c.Left("the newest %s events; there are older ones: --limit, --since, or --all -o jsonl", ledger.Count(len(events)))
	}
	if !o.follow {
		names, err := c.names(ctx, s, events)
		if err != nil {
			return err
		}
		data := map[string]any{"events": base.Each(events, base.EventJSON), "cut": cut}
		return c.Done("", data, func(w *safe.Writer) { printEvents(w, events, names) })
	}
	return c.follow(ctx, s, o, events, place, changed)
}

func (o logOptions) wanted(e ledger.Event) bool {
	has := func(text, part string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) }
	return (o.id == "" || e.OperationID == o.id) && has(e.Actor.Name, o.by) && !e.At.Before(o.from) &&
		(o.outage == "" || e.Outage == o.outage || o.members[e.OperationID])
}

// of finds the outage that was asked for, and what counts in it.
func (c logCommand) of(ctx context.Context, s ledger.Store, o *logOptions) error {
	if o.outage == "" {
		return nil
	}
	in, err := s.Outage(ctx, o.outage, c.Clock())
	if err != nil {
		return err
	}
	var begun time.Time
	if o.members, begun, err = members(ctx, s, in.ID, c.Clock()); err != nil {
		return err
	}
	if o.outage = in.ID; o.from.Before(begun) {
		o.from = begun
	}
	return nil
}

// members are the operations that count in an outage, and when the first was begun:
// there its history starts.
func members(ctx context.Context, s ledger.Lister, outage string, now time.Time) (map[string]bool, time.Time, error) {
	out, begun := map[string]bool{}, now
	f, err := ledger.ParseFilter("outage:" + outage)
	for q := (ledger.Query{Tab: ledger.TabAll, Filter: f, Now: now, Limit: logStep}); err == nil; {
		var page ledger.Page
		if page, err = s.Page(ctx, q); err != nil {
			break
		}
		for _, row := range page.Rows {
			if out[row.ID] = true; row.CreatedAt.Before(begun) {
				begun = row.CreatedAt
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	return out, begun, err
}

// join looks up what is not known yet to count in the outage, or not to.
func (o logOptions) join(ctx context.Context, s ledger.Reader, events []ledger.Event) error {
	if o.outage == "" {
		return nil
	}
	records, err := s.Records(ctx, operationsOf(events))
	for _, rec := range records {
		o.members[rec.Operation.ID] = slices.Contains(rec.Outages, o.outage)
	}
	return err
}

func operationsOf(events []ledger.Event) (ids []string) {
	seen := map[string]bool{"": true}
	for _, e := range events {
		if !seen[e.OperationID] {
			seen[e.OperationID] = true
			ids = append(ids, e.OperationID)
		}
	}
	return ids
}

const logStep = 1000

// lately goes back from the newest event until it has enough, or comes to what is too old.
// It returns the place to go on after; cut: there are more than the limit.
func lately(ctx context.Context, s ledger.Store, o logOptions) (out []ledger.Event, place ledger.Cursor, cut bool, err error) {
	info, err := s.Info(ctx)
	if err != nil {
		return nil, "", false, err
	}
	q := ledger.HistoryQuery{Operation: o.id, Until: info.Cursor, Newest: true, Limit: logStep}
	for more := true; more; {
		page, err := s.History(ctx, q)
		if err != nil {
			return nil, "", false, err
		}
		more = len(page) == logStep
		for _, e := range page {
			q.Before = e.Seq
			if cut = len(out) == o.limit && o.wanted(e); cut || e.At.Before(o.from) {
				more = false
				break
			}
			if o.wanted(e) {
				out = append(out, e)
			}
		}
	}
	slices.Reverse(out)
	return out, info.Cursor, cut, nil
}

// print prints events as they are followed.
func (c logCommand) print(events []ledger.Event, names map[string]safe.Text) error {
	if !c.JSON {
		printEvents(c.Out, events, names)
		return nil
	}
	for _, e := range events {
		if err := base.PrintJSON(c.Out, base.EventJSON(e)); err != nil && !errors.Is(err, syscall.EPIPE) {
			return err
		}
	}
	return nil
}

// names are the titles of the operations and of the outages of the events.
func (c logCommand) names(ctx context.Context, s ledger.Store, events []ledger.Event) (map[string]safe.Text, error) {
	out := map[string]safe.Text{}
	records, err := s.Records(ctx, operationsOf(events))
	p := c.PolicyToLookBy()
	for _, rec := range records {
		out[rec.Operation.ID] = base.See(p, rec).Title()
	}
	for _, e := range events {
		if _, known := out[e.Outage]; known || e.Outage == "" || err != nil {
			continue
		}
		var a ledger.OutageAccount
		if a, err = s.Outage(ctx, e.Outage, c.Clock()); errors.Is(err, ledger.ErrNotFound) { // an event of another writer
			err = nil
			continue
		}
		out[e.Outage] = outageCommand(c).outage(a).Title()
	}
	return out, err
}

func printEvents(w *safe.Writer, events []ledger.Event, names map[string]safe.Text) {
	for _, e := range events {
		w.Println(eventLine(e, names[cmp.Or(e.OperationID, e.Outage)]))
	}
}

// eventLine is one event on one line, with the title of its operation at the end.
func eventLine(e ledger.Event, title safe.Text) safe.Text {
	id := base.Prefix(cmp.Or(e.OperationID, e.Outage, "ledger"), 13)
	line := safe.Say("%s  %-13s  %-7s", base.ClockTime(e.At), id, e.Verb)
	switch {
	case e.From != e.To && e.From != "" && e.To != "":
		line = safe.Say("%s  %s → %s", line, e.From, e.To)
	case e.To != "":
		line = safe.Say("%s  %s", line, e.To)
	}
	line = safe.Say("%s  %s", line, ticket.Who(e.Actor.Name))
	line = safe.Say("%s%s", line, ticket.Colon(ticket.Why(e, base.ClockTime)))
	if title != (safe.Text{}) {
		line = safe.Say("%s · %s", line, title)
	}
	return line
}
