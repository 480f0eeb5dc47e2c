package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// logCommand prints the history, and follows it.
type logCommand struct{ *app }

func newLogCommand(a *app) *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use: "log [ID]", GroupID: groupLook,
		Short: "Print the history, one line an event",
		Long: `Print the newest events of the ledger or of one operation, oldest first, one
line an event. --follow goes on until interrupted; with --json it prints one
JSON object a line.`,
		Example:           "  indoubt log --follow\n  indoubt log --since 8h\n  indoubt log --json --after 4711",
		Args:              maxArgs(1),
		ValidArgsFunction: completion{a}.ids(nil, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.id = args[0]
			}
			o.afterGiven = cmd.Flags().Changed("after")
			return logCommand{a}.log(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what is to come")
	f.StringVar(&o.since, "since", "", "only events since, as 30m or 2d")
	f.Int64Var(&o.after, "after", 0, "only events after this number (seq)")
	f.IntVar(&o.limit, "limit", 100, "at most this many; the newest, or the first ones after --after")
	return cmd
}

type logOptions struct {
	id         string
	follow     bool
	since      string
	after      int64
	afterGiven bool
	limit      int
}

func (c logCommand) log(ctx context.Context, o logOptions) error {
	if o.limit < 1 {
		return usage(fmt.Sprintf("--limit %d is not a number of events", o.limit), "")
	}
	var from time.Time
	if o.since != "" {
		d, err := since(o.since)
		if err != nil {
			return err
		}
		from = c.clock().Add(-d)
	}
	s, err := c.ledgerFor(ctx, toLook)
	if err != nil {
		return err
	}
	if o.id != "" {
		rec, err := c.read(ctx, s, o.id)
		if err != nil {
			return err
		}
		o.id = rec.Operation.ID
	}
	var changed <-chan struct{}
	if o.follow { // before the first look, so that nothing falls between
		changed = s.Watch(ctx)
	}
	events, last, err := history(ctx, s, o, from)
	if err != nil {
		return err
	}
	if !o.follow {
		data := map[string]any{"events": eventsJSON(events), "next": last}
		return c.done("", data, func(w *safe.Writer) { c.printEvents(w, events) })
	}
	return c.follow(ctx, s, o.id, events, last, changed)
}

// history reads the events that were asked for, and the number to go on after.
func history(ctx context.Context, s ledger.Store, o logOptions, from time.Time) ([]ledger.Event, int64, error) {
	const step = 1000
	after := o.after
	if !o.afterGiven && o.id == "" {
		info, err := s.Info(ctx)
		if err != nil {
			return nil, 0, err
		}
		if after = max(0, info.LastSeq-int64(o.limit)); !from.IsZero() {
			if after, err = before(ctx, s, info.LastSeq, from); err != nil {
				return nil, 0, err
			}
		}
	}
	var out []ledger.Event
	for {
		page, err := s.Events(ctx, o.id, after, step)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range page {
			if o.afterGiven && len(out) == o.limit {
				return out, after, nil
			}
			after = e.Seq
			if !e.At.Before(from) {
				out = append(out, e)
			}
		}
		if len(out) > 2*o.limit && !o.afterGiven {
			out = append(out[:0], out[len(out)-o.limit:]...)
		}
		if len(page) < step {
			break
		}
	}
	if len(out) > o.limit {
		out = out[len(out)-o.limit:]
	}
	return out, after, nil
}

// before finds a number after which all events of the time from on lie. Numbers
// rise with time, so a long history is not read from its beginning.
func before(ctx context.Context, s ledger.Feed, last int64, from time.Time) (int64, error) {
	low, high := int64(0), last
	for low < high {
		mid := low + (high-low)/2
		one, err := s.Events(ctx, "", mid, 1)
		if err != nil {
			return 0, err
		}
		if len(one) > 0 && one[0].At.Before(from) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, nil
}

// follow prints what is there and then what comes, until ctx ends.
func (c logCommand) follow(ctx context.Context, s ledger.Feed, id string, events []ledger.Event, last int64, changed <-chan struct{}) error {
	for {
		if c.json {
			for _, e := range events {
				if err := c.printJSON(oneEventJSON(e)); err != nil {
					return err
				}
			}
		} else {
			c.printEvents(c.out, events)
		}
		if len(events) == 0 {
			select {
			case <-ctx.Done():
				return nil
			case _, open := <-changed:
				if !open {
					return nil
				}
			}
		}
		var err error
		if events, err = s.Events(ctx, id, last, 1000); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if len(events) > 0 {
			last = events[len(events)-1].Seq
		}
	}
}

func (c logCommand) printEvents(w *safe.Writer, events []ledger.Event) {
	for _, e := range events {
		w.Println(eventLine(e))
	}
}

// eventLine is one event on one line.
func eventLine(e ledger.Event) safe.Text {
	id := prefix(cmp.Or(e.OperationID, "ledger"), 13)
	line := safe.Say("%s  %-13s  %-7s", clockTime(e.At), id, e.Verb)
	switch {
	case e.From != e.To && e.From != "" && e.To != "":
		line = safe.Say("%s  %s → %s", line, e.From, e.To)
	case e.To != "":
		line = safe.Say("%s  %s", line, e.To)
	}
	line = safe.Say("%s  %s", line, ticket.Who(e.Actor.Name))
	if e.Reason != "" {
		line = safe.Say("%s: %s", line, e.Reason)
	}
	return line
}
