package cli

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// exportVersion is that of the fields below; a field that is added does not move it.
const exportVersion = 1

// exportColumns are those of the CSV, where none are asked for.
var exportColumns = map[string]string{
	"operations": "id version kind title target state lane key source.pipeline source.run session actor receipt effects error_class conflict created_at updated_at cost.duplicate cost.miss advice.verb",
	"events":     "seq id operation incident at verb actor.name actor.machine from to version reason",
}

// exportStep is how many operations or events are in memory at once.
const exportStep = 500

// exportCommand prints everything, a row at a time.
type exportCommand struct {
	*app
	header bool // of the CSV, is written
}

func newExportCommand(a *app) *cobra.Command {
	var settled settledFlags
	var events bool
	cmd := &cobra.Command{
		Use: "export [FILTER]", GroupID: groupLook,
		Short: "Print all operations, or the history, as JSON lines or CSV",
		Long: `Print every operation that a filter lets through, oldest first, a row each: -o jsonl, which
is the default, or -o csv. It has the filters of list, and the fields of list --json with
"export":1, the version of the format, and "record":"operation". With --events it is the
history instead ("record":"event"), whole or between --since and --until.

It reads a page at a time and holds up no one. What was recorded before it began is there,
once, as it stood when its page was read; what comes meanwhile may be there. Where it could
not read to the end it exits 1.

Text that a spreadsheet would run begins with an apostrophe in the CSV. An export is to be
read elsewhere: it cannot be taken back in. For that there is "indoubt backup".`,
		Example: "  indoubt export > operations.jsonl\n  indoubt export -o csv --since 2026-07-01 'state:committed kind:stripe.*' > july.csv\n  indoubt export --events --since yesterday | jq -r .verb | sort | uniq -c",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: completion{a}.filter,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := &exportCommand{app: a}
			if err := c.rowsOnly(); err != nil {
				return err
			}
			if events {
				if len(args) > 0 {
					return usage("--events has no filter", "leave `"+strings.Join(args, " ")+"` out; --since and --until bound the history")
				}
				return c.history(cmd.Context(), settled)
			}
			filter, err := settled.filter(args, a.clock())
			if err != nil {
				return err
			}
			since, _, err := settled.times(a.clock())
			if err != nil {
				return err
			}
			return c.operations(cmd.Context(), filter, since)
		},
	}
	settled.add(cmd)
	cmd.Flags().BoolVar(&events, "events", false, "the history in place of the operations")
	return cmd
}

// rowsOnly refuses what is no stream of rows.
func (c *exportCommand) rowsOnly() error {
	switch c.format {
	case "text":
		c.format = "jsonl"
	case "jsonl", "csv":
	default:
		return usage("export writes rows as they come, not "+c.format, "write -o jsonl or -o csv")
	}
	return nil
}

func (c *exportCommand) operations(ctx context.Context, filter string, since time.Time) error {
	parsed, err := readFilter(c.app, filter)
	if err != nil {
		return err
	}
	s, err := c.ledgerFor(ctx, toLook)
	if err != nil {
		return err
	}
	p := c.policyToLookBy()
	q := ledger.Query{Tab: ledger.TabAll, Filter: parsed, Order: ledger.OrderOldest, Now: c.clock(), Limit: exportStep, Within: searchStep}
	for last := false; !last; {
		page, err := s.Page(ctx, q)
		if err != nil {
			return c.stopped(ctx, err)
		}
		q.After, last = page.Next, page.Next == ""
		all, err := tickets(ctx, s, p, page.Rows)
		if err != nil {
			return c.stopped(ctx, err)
		}
		rows := each(all, func(v ticket.Ticket) any { return exportedOperation{exportVersion, "operation", asJSON(v)} })
		if err := c.write("operations", rows, last); err != nil {
			return err
		}
	}
	notes, _, err := leavesOut(ctx, s, parsed, since)
	for _, note := range notes {
		c.left("%s", note)
	}
	return err
}

// history prints the events of a time.
func (c *exportCommand) history(ctx context.Context, of settledFlags) error {
	since, until, err := of.times(c.clock())
	if err != nil {
		return err
	}
	s, err := c.ledgerFor(ctx, toLook)
	if err != nil {
		return err
	}
	for place, last := ledger.Cursor("0"), false; !last; {
		page, next, err := s.Follow(ctx, place, exportStep)
		if err != nil {
			return c.stopped(ctx, err)
		}
		place, last = next, len(page) < exportStep
		page = slices.DeleteFunc(page, func(e ledger.Event) bool { return e.At.Before(since) || !until.IsZero() && !e.At.Before(until) })
		rows := each(page, func(e ledger.Event) any { return exportedEvent{exportVersion, "event", oneEventJSON(e)} })
		if err := c.write("events", rows, last); err != nil {
			return err
		}
	}
	return leftArchived(ctx, c.app, s, since)
}

// stopped says so where it was.
func (c *exportCommand) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &failure{Exit: exitError, Code: "stopped", Message: "stopped: this is not all", Hint: "begin anew; a filter or --since makes it shorter"}
	}
	return err
}

type exportedOperation struct {
	Export int    `json:"export"`
	Record string `json:"record"`
	operationJSON
}

type exportedEvent struct {
	Export int    `json:"export"`
	Record string `json:"record"`
	eventJSON
}

// write prints some rows; the head of a CSV once, also when there are none.
func (c *exportCommand) write(of string, rows []any, last bool) error {
	if c.format == "jsonl" {
		for _, row := range rows {
			if err := printJSON(c.out, row); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 0 && (c.header || !last) {
		return nil
	}
	if len(c.columns) == 0 {
		c.columns = strings.Fields(exportColumns[of])
	}
	var text bytes.Buffer
	if err := c.rows(safe.NewWriter(&text), map[string]any{of: rows}); err != nil {
		return err
	}
	out := text.Bytes()
	if c.header {
		_, out, _ = bytes.Cut(out, []byte("\n"))
	}
	c.header, c.sparse = true, true
	_, err := c.out.Write(out)
	return err
}
