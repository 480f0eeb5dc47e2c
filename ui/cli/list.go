package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

type listOptions struct {
	filter string
	limit  int
	notes  []string // what the filter does not answer for
}

// openTabs are what is not settled, what needs a person first.
var openTabs = []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking, ledger.TabInFlight, ledger.TabParked}

type listCommand struct{ *base.App }

func newListCommand(a *base.App) *cobra.Command {
	var o listOptions
	var all everything
	cmd := &cobra.Command{
		Use: "list [FILTER]", GroupID: base.GroupLook,
		Short: "List operations, what needs you first",
		Long: `List operations: what needs you first, by what is lost if no one acts, then what
is being checked, in flight and parked, then the rest, newest first. The id is printed
with the version that was seen, ready for the deciding commands.

Filters: words, needs:you (what needs a person), and kind: state: downstream: source:
error: lane: (names, as in state:uncertain,failed or kind:stripe.*), key: token: receipt:
id: by: parked:yes since:yesterday until:2026-07-14 age>30m cost>100 risk>50; a leading
- negates (first, it stands behind --). A key, token, receipt or id is found at once by its beginning; a word is
searched for from the newest operation to the oldest. Ctrl-C stops a search, and prints
what was found until then.

--all -o jsonl prints every operation that the filter lets through, oldest first, as it
reads them: what was recorded before it began is there, once, as it stood when its page was
read.`,
		Example: "  indoubt list\n  indoubt list 'kind:stripe.* error:timeout age>10m'\n  indoubt list --limit 20 -- -needs:you\n  indoubt list --all -o jsonl > operations.jsonl\n  indoubt list --json needs:you | jq -r '.data.operations[].id'",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.filter = strings.TrimSpace(strings.Join(args, " "))
			if err := all.check(cmd, "limit"); err != nil {
				return err
			}
			if all.wanted {
				return all.operations(cmd.Context(), a, o.filter)
			}
			return listCommand{a}.list(cmd.Context(), o)
		},
	}
	all.add(cmd)
	cmd.Flags().IntVar(&o.limit, "limit", 50, "at most this many")
	return cmd
}

func (c listCommand) list(ctx context.Context, o listOptions) error {
	if err := base.AtMost(o.limit); err != nil {
		return err
	}
	filter, err := ledger.ParseFilter(o.filter)
	if err != nil {
		return err
	}
	s, err := base.LookedAt(ctx, c.App)
	if err != nil {
		return err
	}
	if filter = c.Placed(filter); o.filter != "" {
		o.notes = base.LeavesOut(filter)
	}
	rows, more, stopped, err := c.pages(ctx, s, filter, o.limit)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // what was found until then is printed
	all, err := base.Tickets(ctx, s, c.PolicyToLookBy(), rows)
	if err != nil {
		return err
	}
	data := map[string]any{"operations": base.Each(all, base.AsJSON), "more": more, "left_out": base.List(o.notes)}
	if more {
		data["hint"] = "there are more: raise --limit, or take --all -o jsonl"
	}
	var below string
	if !c.JSON {
		if below, err = c.underList(ctx, s, o, len(all), more); err != nil {
			return err
		}
	}
	print := func(w *safe.Writer) {
		base.WriteTable(w, all, filter, c.Width())
		fmt.Fprintln(w, below)
	}
	if stopped != "" {
		return &base.Failure{Code: "stopped", Message: stopped, Hint: "a field of the filter that an index finds is quicker: key: token: receipt: id:", Data: data, Text: print}
	}
	return c.Done("", data, print)
}

// searchStep is how long a filter searches before it is said how far it came.
const searchStep = 500 * time.Millisecond

// pages goes through the lists one after the other, all as they are at one moment: a
// deadline that passed on the way would take a row out of each. The last one has all, also
// what an earlier one has shown. stopped says how far a search came that Ctrl-C ended.
func (c listCommand) pages(ctx context.Context, s ledger.Lister, f ledger.Filter, limit int) (rows []ledger.Row, more bool, stopped string, err error) {
	now, searched := c.Clock(), 0
	for _, tab := range append(slices.Clone(openTabs), ledger.TabAll) {
		q := ledger.Query{Tab: tab, Filter: f, Now: now, Limit: limit + 1, Within: searchStep}
		if slices.Contains(openTabs, tab) {
			q.Order = ledger.OrderLoss
		}
		for last := false; !last; {
			page, err := s.Page(ctx, q)
			if err != nil && ctx.Err() != nil && len(f.Terms) > 0 {
				return rows, true, fmt.Sprintf("stopped after about %s operations: not all was searched", ledger.Count(searched)), nil
			}
			if err != nil {
				return nil, false, "", err
			}
			for _, row := range page.Rows {
				if tab != ledger.TabAll || !slices.Contains(openTabs, row.TabAt(now)) {
					rows = append(rows, row)
				}
			}
			if len(rows) > limit {
				return rows[:limit], true, "", nil
			}
			if q.After, last = page.Next, page.Next == ""; !last && len(page.Rows) < q.Limit {
				searched += page.Searched
				if searched > 0 && !c.JSON && base.IsTerminal(c.RawErr) {
					fmt.Fprintf(c.RawErr, "\rsearched about %s operations, Ctrl-C stops ", ledger.Count(searched))
				}
			}
		}
	}
	return rows, false, "", nil
}

// underList says what the list leaves out, and what an empty one means.
func (c listCommand) underList(ctx context.Context, s ledger.Store, o listOptions, shown int, cut bool) (string, error) {
	more := ""
	if cut {
		more = "\n" + ledger.Count(shown) + " shown, there are more: --limit, or --all -o jsonl"
	}
	for _, note := range o.notes {
		more += "\n" + safe.Of(note).String()
	}
	info, err := s.Info(ctx)
	if err != nil {
		return "", err
	}
	if over := ticket.Failover(info.Failover, time.Local); !over.Empty() {
		more += "\n" + over.String() + "; nothing is begun or allowed until `indoubt adopt`"
	}
	if o.filter != "" {
		return ticket.Plural(shown, "operation", "operations") + more, nil
	}
	counts, err := s.Counts(ctx, c.Clock())
	if err != nil {
		return "", err
	}
	switch {
	case counts.All == 0:
		return fmt.Sprintf("Nothing was ever recorded here (created %s ago). Not an all-clear.\n  indoubt run --kind post -- curl --fail-with-body …", ticket.Age(c.Clock().Sub(info.CreatedAt))) + more, nil
	case counts.NeedsYou+counts.Checking+counts.InFlight == 0:
		line := fmt.Sprintf("Nothing needs you. %s settled.", ledger.Count(counts.Settled))
		if counts.Parked > 0 {
			line += fmt.Sprintf(" %s parked.", ledger.Count(counts.Parked))
		}
		if !info.LastWrite.IsZero() {
			line += " Last write " + ticket.Ago(c.Clock().Sub(info.LastWrite))
			if info.LastBy != "" {
				line += ", " + safe.Of(info.LastBy).String()
			}
			line += "."
		}
		return line + more, nil
	}
	line := fmt.Sprintf("%s need you, %s checking, %s in flight, %s settled", ledger.Count(counts.NeedsYou), ledger.Count(counts.Checking), ledger.Count(counts.InFlight), ledger.Count(counts.Settled))
	if counts.Parked > 0 {
		line += fmt.Sprintf(", %s parked", ledger.Count(counts.Parked))
	}
	return line + more, nil
}
