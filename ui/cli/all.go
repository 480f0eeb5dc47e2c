package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
)

// allStep is how many operations or events are in memory at once where all are read.
const allStep = 500

// everything prints all rows of a list as they are read, so that memory does not grow with
// the ledger.
type everything struct {
	wanted bool
	output string
}

func (c *everything) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.wanted, "all", false, "all of them, oldest first, a row at a time: with -o jsonl")
	cmd.Flags().StringVarP(&c.output, "output", "o", "", "jsonl: an object a line, with --all")
}

// check refuses one of the two without the other, and options that say how much.
func (c *everything) check(cmd *cobra.Command, besides ...string) error {
	switch {
	case c.output != "" && c.output != "jsonl":
		return base.Usage(fmt.Sprintf("--output `%s` is not jsonl", c.output), "write --json, or --all -o jsonl")
	case c.wanted != (c.output != ""):
		return base.Usage("--all and -o jsonl go together: rows are printed as they come", "write --all -o jsonl")
	}
	for _, name := range append(besides, "json") {
		if c.wanted && cmd.Flags().Changed(name) {
			return base.Usage("--all is everything, from the first on: --"+name+" does not go with it", "leave one of the two out")
		}
	}
	return nil
}

// operations prints those that a filter lets through, oldest first.
func (c *everything) operations(ctx context.Context, a *base.App, filter string) error {
	parsed, err := ledger.ParseFilter(filter)
	if err != nil {
		return err
	}
	s, err := base.LookedAt(ctx, a)
	if err != nil {
		return err
	}
	p, parsed := a.PolicyToLookBy(), a.Placed(parsed)
	q := ledger.Query{Tab: ledger.TabAll, Filter: parsed, Order: ledger.OrderOldest, Now: a.Clock(), Limit: allStep, Within: searchStep}
	for last := false; !last; {
		page, err := s.Page(ctx, q)
		if err != nil {
			return cutShort(ctx, err)
		}
		q.After, last = page.Next, page.Next == ""
		all, err := base.Tickets(ctx, s, p, page.Rows)
		if err != nil {
			return cutShort(ctx, err)
		}
		for _, t := range all {
			if err := base.PrintJSON(a.Out, base.AsJSON(t)); err != nil {
				return err
			}
		}
	}
	for _, note := range base.LeavesOut(parsed) {
		a.Left("%s", note)
	}
	return nil
}

func (c *everything) history(ctx context.Context, a *base.App, s ledger.Store, o logOptions) error {
	for place, last := ledger.Cursor("0"), false; !last; {
		page, next, err := s.Follow(ctx, place, allStep)
		if err == nil {
			err = o.join(ctx, s, page)
		}
		if err != nil {
			return cutShort(ctx, err)
		}
		place, last = next, len(page) < allStep
		for _, e := range page {
			if !o.wanted(e) {
				continue
			}
			if err := base.PrintJSON(a.Out, base.EventJSON(e)); err != nil {
				return err
			}
		}
	}
	return nil
}

// cutShort says so where a reader was stopped.
func cutShort(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &base.Failure{Code: "stopped", Message: "stopped: this is not all", Hint: "begin anew; a filter or --since makes it shorter"}
	}
	return err
}
