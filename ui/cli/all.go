package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
)

// allStep is how many operations or events are in memory at once where all are read.
const allStep = 500

// everything prints all rows of a list as they are read, so that memory does not grow with
// the ledger.
type everything struct{ *app }

// rowsOnly refuses what cannot be printed row by row, and options that say how much.
func (c *everything) rowsOnly(cmd *cobra.Command, besides ...string) error {
	for _, name := range besides {
		if cmd.Flags().Changed(name) {
			return usage("--all is everything, from the first on: --"+name+" does not go with it", "leave one of the two out")
		}
	}
	if c.format != "jsonl" {
		return usage(fmt.Sprintf("--all prints rows as they come, not %s", c.format), "write -o jsonl")
	}
	return nil
}

// operations prints those that a filter lets through, oldest first.
func (c *everything) operations(ctx context.Context, filter string, since time.Time) error {
	parsed, err := ledger.ParseFilter(filter)
	if err != nil {
		return err
	}
	s, err := lookedAt(ctx, c.app)
	if err != nil {
		return err
	}
	p, parsed := c.policyToLookBy(), c.placed(parsed)
	q := ledger.Query{Tab: ledger.TabAll, Filter: parsed, Order: ledger.OrderOldest, Now: c.clock(), Limit: allStep, Within: searchStep}
	for last := false; !last; {
		page, err := s.Page(ctx, q)
		if err != nil {
			return cutShort(ctx, err)
		}
		q.After, last = page.Next, page.Next == ""
		all, err := tickets(ctx, s, p, page.Rows)
		if err != nil {
			return cutShort(ctx, err)
		}
		if err := c.rows(c.out, map[string]any{"operations": each(all, asJSON)}); err != nil {
			return err
		}
	}
	for _, note := range leavesOut(parsed) {
		c.left("%s", note)
	}
	return nil
}

// history prints the events that were asked for.
func (c *everything) history(ctx context.Context, s ledger.Store, o logOptions) error {
	for place, last := ledger.Cursor("0"), false; !last; {
		page, next, err := s.Follow(ctx, place, allStep)
		if err == nil {
			err = o.join(ctx, s, page)
		}
		if err != nil {
			return cutShort(ctx, err)
		}
		place, last = next, len(page) < allStep
		page = slices.DeleteFunc(page, func(e ledger.Event) bool { return !o.wanted(e) })
		if err := c.rows(c.out, map[string]any{"events": each(page, oneEventJSON)}); err != nil {
			return err
		}
	}
	return nil
}

// cutShort says so where a reader was stopped.
func cutShort(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &failure{Code: "stopped", Message: "stopped: this is not all", Hint: "begin anew; a filter or --since makes it shorter"}
	}
	return err
}
