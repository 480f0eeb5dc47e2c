package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

type listOptions struct {
	filter string
	tab    string
	order  string
	limit  int
	after  string
}

// openTabs are what `list` shows when nothing else is asked for: all that is
// not settled, what needs a person first.
var openTabs = []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking, ledger.TabInFlight}

func newListCommand(a *app) *cobra.Command {
	var o listOptions
	var since string
	cmd := &cobra.Command{
		Use: "list [FILTER]", GroupID: groupLook,
		Short: "List operations: without a filter what is open, with one everything that matches",
		Long: `List operations: without a filter what is open, what needs you first; with a
filter everything that matches it. The id is printed with the version that was
seen, ready for the deciding commands.

Filters: words, and kind: state: lane: downstream: source: error: key: token:
id: by:, age>30m cost>100 risk>50; a leading - negates.`,
		Example: "  indoubt list\n  indoubt list 'kind:stripe.* error:timeout age>10m'\n  indoubt list --tab settled --limit 20\n  indoubt list --json lane:decide | jq -r '.data.operations[].id'",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: a.completeFilter,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := filterText(args, since)
			if err != nil {
				return err
			}
			o.filter = f
			return a.list(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.tab, "tab", "", "one list of the console: needs_you, checking, in_flight, settled or all")
	f.StringVar(&o.order, "order", "", "loss (what is lost if nobody acts), newest or oldest")
	f.IntVar(&o.limit, "limit", 50, "at most this many")
	f.StringVar(&o.after, "after", "", "go on after this cursor (data.next)")
	f.StringVar(&since, "since", "", "only what was begun since, as 30m or 2d")
	_ = cmd.RegisterFlagCompletionFunc("tab", cobra.FixedCompletions([]string{"needs_you", "checking", "in_flight", "settled", "all"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("order", cobra.FixedCompletions([]string{"loss", "newest", "oldest"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// list prints one page of operations.
func (a *app) list(ctx context.Context, o listOptions) error {
	tabs, err := o.tabs()
	if err != nil {
		return err
	}
	filter, err := ledger.ParseFilter(o.filter)
	if err != nil {
		return err
	}
	s, err := a.ledgerFor(ctx, toLook)
	if err != nil {
		return err
	}
	rows, next, err := a.pages(ctx, s, tabs, filter, o)
	if err != nil {
		return err
	}
	all, err := views(ctx, s, a.policyToLookBy(), rows)
	if err != nil {
		return err
	}
	ops := make([]operationJSON, 0, len(all))
	for _, v := range all {
		ops = append(ops, v.asJSON())
	}
	data := map[string]any{"operations": ops, "next": text(next)}
	var below string
	if !a.json {
		if below, err = a.underList(ctx, s, o, len(all), next); err != nil {
			return err
		}
	}
	return a.done("", data, func(w io.Writer) {
		writeTable(w, all, a.width())
		fmt.Fprintln(w, below)
	})
}

// tabs are the lists to print, one after the other.
func (o listOptions) tabs() ([]ledger.Tab, error) {
	if o.limit < 1 || o.limit > 10000 {
		return nil, usage(fmt.Sprintf("--limit %d is not between 1 and 10000", o.limit), "")
	}
	if !slices.Contains([]string{"", "loss", "newest", "oldest"}, o.order) {
		return nil, usage(fmt.Sprintf("--order %q is none of loss, newest, oldest", o.order), "")
	}
	tab := ledger.Tab(o.tab)
	switch {
	case tab == "" && o.filter == "":
		return openTabs, nil
	case tab == "":
		return []ledger.Tab{ledger.TabAll}, nil
	case slices.Contains([]ledger.Tab{ledger.TabAll, ledger.TabNeedsYou, ledger.TabChecking, ledger.TabInFlight, ledger.TabSettled}, tab):
		return []ledger.Tab{tab}, nil
	}
	return nil, usage(fmt.Sprintf("--tab %q is none of needs_you, checking, in_flight, settled, all", o.tab), "")
}

// pages fills one page from several lists. Its cursor names the list it is in.
func (a *app) pages(ctx context.Context, s ledger.Store, tabs []ledger.Tab, f ledger.Filter, o listOptions) (rows []ledger.Row, next string, err error) {
	after := o.after
	if tab, cursor, ok := strings.Cut(after, "/"); ok {
		at := slices.Index(tabs, ledger.Tab(tab))
		if at < 0 {
			return nil, "", usage("--after is the cursor of another list", "use data.next with the same filter and --tab")
		}
		tabs, after = tabs[at:], cursor
	} else if after != "" {
		return nil, "", usage("--after is not a cursor", "use data.next of the page before")
	}
	for i, tab := range tabs {
		if len(rows) == o.limit {
			return rows, string(tab) + "/", nil
		}
		order := ledger.Order(o.order)
		if order == "" && tab != ledger.TabSettled {
			order = ledger.OrderLoss
		}
		page, err := s.Page(ctx, ledger.Query{Tab: tab, Filter: f, Order: order, Now: a.clock(), After: after, Limit: o.limit - len(rows)})
		if err != nil {
			return nil, "", err
		}
		rows, after = append(rows, page.Rows...), ""
		if page.Next != "" {
			return rows, string(tabs[i]) + "/" + page.Next, nil
		}
	}
	return rows, "", nil
}

// underList says what the list leaves out, and what an empty one means.
func (a *app) underList(ctx context.Context, s ledger.Store, o listOptions, shown int, next string) (string, error) {
	if next != "" {
		return fmt.Sprintf("%d shown, there are more: --after %s or --limit", shown, next), nil
	}
	if o.filter != "" || o.tab != "" {
		return fmt.Sprintf("%d %s", shown, plural(shown, "operation", "operations")), nil
	}
	counts, err := s.Counts(ctx, a.clock())
	if err != nil {
		return "", err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return "", err
	}
	switch {
	case counts.All == 0:
		return fmt.Sprintf("Nothing was ever recorded here (created %s ago). Not an all-clear.\n  indoubt run --kind post -- curl --fail-with-body …", age(a.clock().Sub(info.CreatedAt))), nil
	case shown == 0:
		line := fmt.Sprintf("Nothing needs you. %d settled.", counts.Settled)
		if counts.Parked > 0 {
			line += fmt.Sprintf(" %d parked.", counts.Parked)
		}
		if !info.LastWrite.IsZero() {
			line += " Last write " + age(a.clock().Sub(info.LastWrite)) + " ago"
			if info.LastBy != "" {
				line += ", " + safe.Text(info.LastBy)
			}
			line += "."
		}
		return line, nil
	}
	line := fmt.Sprintf("%d need you, %d checking, %d in flight, %d settled", counts.NeedsYou, counts.Checking, counts.InFlight, counts.Settled)
	if counts.Parked > 0 {
		line += fmt.Sprintf(", %d parked", counts.Parked)
	}
	return line, nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
