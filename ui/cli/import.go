package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/policy"
	"indoubt/policy/mapping"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

func newImportCommand(a *base.App) *cobra.Command {
	c := &importing{App: a, seen: map[string]bool{}, done: importJSON{Kinds: map[string]int{}, First: []importRowJSON{}}}
	cmd := &cobra.Command{
		Use: "import [FILE…]", GroupID: base.GroupRecord,
		Short: "Take over dead letters, failed jobs or log lines as operations in doubt",
		Long: `Record what another program sent, or may have, and gave up: each row of the files, or
of standard input, becomes an operation in doubt, which checks settle. Nothing is sent.

Rows are JSON, one value a line. A mapping says what a row is: --from names one that comes
with indoubt, or a file of your own, and --map FIELD=EXPRESSION says one field anew. Every
row needs kind. at is the earliest time at which it may have been sent; a row without one
may have been sent at any time. The policy's redact: and the limits of size hold as for "run".

The same rows again record nothing more, so that it may run from cron, and a command which
was stopped, or killed, is given again. A bad row is told with its file and line, and nothing
is imported. With --skip-bad such rows alone are left out, and it exits 0.`,
		Example: `  redis-cli zrange dead 0 -1 | indoubt import --from sidekiq --dry-run
  indoubt import --from sqs --skip-bad messages.jsonl
  indoubt import --map kind='"mail." + row.class' --map at=row.died_at failed.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&c.from, "from", mapping.Plain, "how to read a row: "+strings.Join(mapping.Names(), ", ")+", or a file of field: expression")
	f.StringArrayVar(&c.fields, "map", nil, "say one field of the mapping anew, as FIELD=EXPRESSION")
	f.BoolVar(&c.dryRun, "dry-run", false, "say what would be recorded, with the first rows, and record nothing")
	f.BoolVar(&c.skipBad, "skip-bad", false, "leave out rows that cannot be read, and name them on standard error")
	return cmd
}

type importJSON struct {
	Mapping  string          `json:"mapping"`
	Read     int             `json:"read"`
	Recorded int             `json:"recorded"`
	Known    int             `json:"known"`     // the same rows were recorded before
	KnownKey int             `json:"known_key"` // another operation stands for them under their key
	LeftOut  int             `json:"left_out"`  // by the mapping
	Bad      int             `json:"bad"`
	Kinds    map[string]int  `json:"kinds"` // how many rows of each kind were recorded
	First    []importRowJSON `json:"first"`
}

type importRowJSON struct {
	Place string  `json:"place"`
	Kind  string  `json:"kind"`
	Key   string  `json:"key"`
	Title string  `json:"title"`
	At    *string `json:"at"` // null: at any time
}

type importing struct {
	*base.App
	from            string
	fields          []string
	dryRun, skipBad bool

	mapping  *mapping.Mapping
	policy   *policy.Policy
	recorder *record.Recorder
	rows     []*importRow
	seen     map[string]bool // of the batch; of all when nothing is recorded
	done     importJSON
	bad      *base.Failure // the first bad row
}

// importRow is a row that is an operation, and what became of it.
type importRow struct {
	place string
	past  record.Past
	how   record.TakenOver
	op    ledger.Operation
	err   error
}

// Rows are taken over in batches, so many at once: they share transactions.
const importBatch, importAtOnce, firstShown, badTold = 256, 64, 5, 20

func (c *importing) run(ctx context.Context, files []string) (err error) {
	var broken *mapping.Error
	switch c.mapping, err = mapping.Load(c.from, c.fields); {
	case errors.As(err, &broken):
		return &base.Failure{Code: "usage", Message: broken.Message, Hint: broken.Hint}
	case len(files) == 0 && base.IsTerminal(c.Stdin):
		return base.Usage("import needs rows", "name files, or pipe them in: … | indoubt import --from sidekiq")
	case len(files) == 0:
		files = []string{"-"}
	}
	c.done.Mapping = c.mapping.Name
	if c.policy, err = c.App.Policy(); err != nil {
		return err
	}
	if c.recorder, err = newRecorder(ctx, c.App, ledger.Source{Pipeline: ledger.SenderImport}, c.dryRun); err != nil {
		return err
	}
	for _, file := range files {
		if err := c.read(ctx, file); err != nil {
			return c.ended(ctx, err)
		}
	}
	if c.bad != nil && !c.skipBad {
		c.bad.Hint = strings.TrimPrefix(c.bad.Hint+"\nnothing was imported; mend it, or leave out what is bad: --skip-bad", "\n")
		return c.ended(ctx, c.bad)
	}
	for batch := range slices.Chunk(c.rows, importBatch) {
		if err := c.take(ctx, batch); err != nil {
			return c.ended(ctx, err)
		}
	}
	return c.ended(ctx, nil)
}

func (c *importing) read(ctx context.Context, file string) error {
	in, name := io.Reader(c.In), "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return base.Usage(err.Error(), "name a file of JSON lines, or - for standard input")
		}
		defer f.Close()
		in, name = f, base.Short(file)
	}
	return c.mapping.Rows(ctx, in, func(row mapping.Row, err error) error {
		var op mapping.Operation
		var bad *mapping.Error
		skip, place := false, name+", "+row.Place
		if err == nil {
			op, skip, err = c.mapping.Read(ctx, row)
		}
		c.done.Read++
		switch {
		case errors.As(err, &bad):
			c.refuse(place, bad.Message, bad.Hint)
		case skip:
			c.done.LeftOut++
		default:
			c.rows = append(c.rows, c.rowOf(place, op))
		}
		return ctx.Err()
	})
}

func (c *importing) rowOf(place string, op mapping.Operation) *importRow {
	req := record.Request{ID: op.ID, Kind: op.Kind, Scope: op.Scope, Key: op.Key, Input: op.Input, Source: ledger.Source{Pipeline: cmp.Or(op.Source, c.mapping.Name), Run: op.Run},
		Token: op.Token, TokenSent: op.Token != "", KeySent: op.KeySent, Remark: "taken over from " + c.mapping.Name + ", " + place}
	past := record.Past{Request: req, SentAt: op.At, Outcome: ledger.OutcomeUncertain, Proof: op.Proof, Error: op.Error}
	if op.Proof != "" {
		past.Outcome = ledger.OutcomeFailed
	}
	return &importRow{place: place, past: past}
}

// refuse tells of a row that is no operation.
func (c *importing) refuse(place, message, hint string) {
	if c.done.Bad++; c.bad == nil {
		c.bad = &base.Failure{Code: "bad_row", Message: place + ": " + message, Hint: hint}
	}
	if c.done.Bad <= badTold && (c.skipBad || c.done.Bad > 1) { // the first ends the import, and is told then
		c.ErrOut.Println(place + ": bad: " + message)
	}
}

// take takes over rows. What is recorded already is looked for in one go, so that an
// import which is given again comes quickly to what is new. One that was begun when an
// import was killed is ended.
func (c *importing) take(ctx context.Context, batch []*importRow) error {
	known, err := c.recorder.Store().Records(ctx, base.Each(batch, func(row *importRow) string { return row.past.ID }))
	if err != nil {
		return err
	}
	if !c.dryRun {
		clear(c.seen)
	}
	for _, rec := range known {
		o := rec.Operation
		c.seen[o.ID] = o.State != ledger.Pending || o.LiveAttempt != ledger.DeriveID(o.ID, "attempt")
	}
	group := errgroup.Group{}
	group.SetLimit(importAtOnce)
	for _, row := range batch {
		if row.how = record.TakenKnown; c.seen[row.past.ID] {
			continue
		}
		c.seen[row.past.ID] = true
		group.Go(func() error {
			if row.err = ctx.Err(); row.err == nil { // what is begun is settled, also when it is stopped
				row.how, row.op, row.err = c.recorder.TakeOver(context.WithoutCancel(ctx), row.past, c.dryRun)
			}
			return nil
		})
	}
	_ = group.Wait() // each row has its own error
	for _, row := range batch {
		if err = c.count(row); err != nil {
			break
		}
	}
	return err
}

// count says what became of a row; its error ends the import. What the ledger or the
// policy refuses of a row is known only here: the others are recorded.
func (c *importing) count(row *importRow) error {
	o := row.op
	switch {
	case errors.As(row.err, new(*record.NoKeyError)), errors.Is(row.err, ledger.ErrGuard):
		c.refuse(row.place, row.err.Error(), "does it need a key? --map key=EXPRESSION")
	case row.err != nil:
		return row.err
	case row.how == record.TakenReuse:
		c.refuse(row.place, fmt.Sprintf("its key `%s` is that of %s, which has another input", o.Key, o.ID), "make it a key of its own: --map key=EXPRESSION")
	case row.how == record.TakenKnown:
		c.done.Known++
	case row.how == record.TakenKey:
		c.done.KnownKey++
	default:
		c.done.Recorded++
		first := importRowJSON{row.place, o.Kind, o.Key, o.Title, nil}
		if row.past.SentAt.After(mapping.AnyTime) {
			first.At = base.Moment(row.past.SentAt)
		}
		if c.done.Kinds[o.Kind]++; len(c.done.First) < firstShown {
			c.done.First = append(c.done.First, first)
		}
	}
	return nil
}

func (c *importing) ended(ctx context.Context, err error) error {
	effect := base.EffectOf(true, c.dryRun)
	if c.done.Recorded == 0 {
		effect = base.EffectNoop
	}
	switch {
	case err == nil && c.bad != nil && !c.skipBad: // the ledger refused it
		c.bad.Hint = strings.TrimPrefix(c.bad.Hint+"\nthe other rows were imported, and are not imported once more", "\n")
		err = c.bad
	case err == nil:
		return c.App.Done(effect, c.done, c.print)
	case ctx.Err() != nil:
		err = &base.Failure{Code: "stopped", Message: "stopped; what was recorded stays", Hint: "the same command again goes on"}
	}
	f := *base.AsFailure(err)
	if f.Data == nil && f.Code != "usage" {
		f.Data, f.Effect, f.Text = c.done, effect, c.print
	}
	return &f
}

func (c *importing) print(w *safe.Writer) {
	d, would := c.done, ""
	if c.dryRun {
		would = "would be "
	}
	w.Printf("%s read: %s %srecorded, %s there already, %s left out by the mapping, %s bad\n", ticket.Plural(d.Read, "row", "rows"),
		ledger.Count(d.Recorded), would, ledger.Count(d.Known+d.KnownKey), ledger.Count(d.LeftOut), ledger.Count(d.Bad))
	kinds, next := slices.Sorted(maps.Keys(d.Kinds)), "A check settles them: see the page on policies, or decide by hand: indoubt list"
	base.WriteColumns(w, []string{"KIND", "ROWS", "CHECK"}, len(kinds), func(i int) []string {
		check := "none: the policy says no read for it"
		if c.policy.Kind(kinds[i]).Read != nil {
			check, next = "by the policy", "Look for their effects: indoubt engine, or keep a console open"
		}
		return []string{kinds[i], ledger.Count(d.Kinds[kinds[i]]), check}
	})
	if c.dryRun {
		base.WriteColumns(w, []string{"FIRST", "KIND", "KEY", "SENT AT", "TITLE"}, len(d.First), func(i int) []string {
			r, any := d.First[i], "at any time"
			return []string{r.Place, r.Kind, r.Key, *cmp.Or(r.At, &any), r.Title}
		})
	} else if d.Recorded > 0 {
		w.Lines("\nNothing was sent. " + next)
	}
}
