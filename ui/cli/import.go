package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/policy"
	"indoubt/policy/mapping"
	"indoubt/ui/safe"
)

type importOptions struct {
	from, mapping, skipBad string
	fields                 []string
	show, dryRun           bool
}

func newImportCommand(a *app) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use: "import [FILE…]", GroupID: groupRecord,
		Short: "Take over dead letters, failed jobs or log lines as operations in doubt",
		Long: `Record what another program sent, or may have, and gave up: each row of the files, or
of standard input, becomes an operation in doubt, which checks settle. Nothing is sent.

The rows are JSON: one a line, or one list, or the whole answers of an API. A mapping says
what a row is: --from names one that comes with indoubt, --mapping FILE is your own, and
--map FIELD=EXPRESSION says one field anew. Every row needs kind and at, the earliest time
at which it may have been sent; what a downstream remembers or shows counts from then.
The policy's redact: and the limits of size hold as for "run".

The same rows again record nothing more, so that a command which was stopped, or killed,
is given again. A row that cannot be read ends the import; what stands before it is
recorded. With --skip-bad FILE the import goes on, such rows go to FILE, and it exits 1.`,
		Example: `  redis-cli zrange dead 0 -1 | indoubt import --from sidekiq --dry-run
  indoubt import --from sqs --skip-bad bad.jsonl messages/*.json
  indoubt import --map kind='"mail." + row.class' --map at=row.died_at failed.jsonl
  indoubt import --from kafka --show > own.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return importRows(cmd.Context(), a, o, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", mapping.Plain, "how to read a row: "+strings.Join(mapping.Names(), ", "))
	f.StringVar(&o.mapping, "mapping", "", "your own mapping, a file of field: expression")
	f.StringArrayVar(&o.fields, "map", nil, "say one field of the mapping anew, as FIELD=EXPRESSION")
	f.BoolVar(&o.show, "show", false, "print the mapping, to be changed into your own, and read nothing")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be recorded, with the first rows, and record nothing")
	f.StringVar(&o.skipBad, "skip-bad", "", "go on behind rows that cannot be read, and write them to this new file")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(mapping.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("map", cobra.FixedCompletions(withSuffix(mapping.Fields(), "="), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	return cmd
}

func withSuffix(names []string, suffix string) []string {
	for i := range names {
		names[i] += suffix
	}
	return names
}

// importJSON is what became of the rows.
type importJSON struct {
	Mapping  string           `json:"mapping"`
	Read     int              `json:"read"`
	Recorded int              `json:"recorded"`
	Known    int              `json:"known"`     // the same rows were recorded before
	KnownKey int              `json:"known_key"` // another operation stands for them under their key
	LeftOut  int              `json:"left_out"`  // by the mapping
	Bad      int              `json:"bad"`
	Kinds    []importKindJSON `json:"kinds"`
	First    []importRowJSON  `json:"first"`
}

// importKindJSON counts the recorded rows of a kind.
type importKindJSON struct {
	Kind   string `json:"kind"`
	Rows   int    `json:"rows"`
	Policy bool   `json:"policy"` // it names the kind
	Check  bool   `json:"check"`  // it says how to look for the effect
}

type importRowJSON struct {
	Place string  `json:"place"`
	ID    string  `json:"id"`
	Kind  string  `json:"kind"`
	Key   string  `json:"key"`
	Title string  `json:"title"`
	At    *string `json:"at"`
	State string  `json:"state"` // uncertain or failed
}

// importing is one run of the command.
type importing struct {
	*app
	importOptions
	mapping  *mapping.Mapping
	policy   *policy.Policy
	recorder *record.Recorder
	store    ledger.Store
	file     string // that is read now; "" is standard input
	batch    []importRow
	seen     map[string]bool // of the batch; of all when nothing is recorded
	kinds    map[string]int
	done     importJSON
	bad      *os.File
	tell     time.Time // when the terminal is told next how far it is
	told     bool      // it shows that
}

// importRow is a row that is an operation, and the place it came from.
type importRow struct {
	mapping.Row
	past record.Past
	how  record.TakenOver
	op   ledger.Operation
	err  error
}

// firstShown rows are listed, and of bad ones so many told of.
const firstShown, badTold = 5, 20

func importRows(ctx context.Context, a *app, o importOptions, files []string) error {
	if o.show {
		return showMapping(a, o)
	}
	m, err := mapping.Load(o.from, o.mapping, o.fields)
	if err != nil {
		return mappingFailure(err)
	}
	if len(files) == 0 && isTerminal(a.stdin) {
		return usage("import needs rows", "name files, or pipe them in: … | indoubt import --from sidekiq")
	}
	c := &importing{app: a, importOptions: o, mapping: m, seen: map[string]bool{}, kinds: map[string]int{}, tell: time.Now().Add(time.Second),
		done: importJSON{Mapping: m.Name, Kinds: []importKindJSON{}, First: []importRowJSON{}}}
	if c.recorder, err = a.recorder(ctx, ledger.Source{Pipeline: ledger.SenderImport}, o.dryRun); err != nil {
		return err
	}
	c.store = c.recorder.Store()
	if c.policy, err = a.policy(); err != nil {
		return err
	}
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, file := range files {
		if err = c.read(ctx, file); err != nil {
			break
		}
	}
	return c.ended(ctx, err)
}

// showMapping prints a mapping that comes with the program.
func showMapping(a *app, o importOptions) error {
	text, ok := mapping.Text(o.from)
	if !ok || o.mapping != "" {
		_, err := mapping.Load(o.from, "", nil)
		return cmp.Or(mappingFailure(err), usage("--show prints a mapping of --from", ""))
	}
	return a.done("", map[string]string{"mapping": o.from, "text": string(text)}, func(w *safe.Writer) { w.Lines(strings.TrimSuffix(string(text), "\n")) })
}

func mappingFailure(err error) error {
	var broken *mapping.Error
	if errors.As(err, &broken) {
		return &failure{Exit: exitUsage, Code: "bad_mapping", Message: broken.Message, Hint: broken.Hint}
	}
	return err
}

// read takes over the rows of one file.
func (c *importing) read(ctx context.Context, file string) error {
	var in io.Reader = c.in
	if c.file = ""; file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return usage(err.Error(), "name a file of JSON, or - for standard input")
		}
		defer f.Close()
		in, c.file = f, filepath.Base(file)
	}
	for row, err := range c.mapping.Rows(ctx, in) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var op mapping.Operation
		skip := false
		if err == nil {
			op, skip, err = c.mapping.Read(ctx, row)
		}
		if c.done.Read++; skip {
			c.done.LeftOut++
			continue
		}
		if err != nil {
			if err := c.refuse(ctx, row, err); err != nil {
				return err
			}
			continue
		}
		if c.batch = append(c.batch, importRow{Row: row, past: c.pastOf(row, op)}); full(c.batch) {
			if err := c.flush(ctx); err != nil {
				return err
			}
		}
	}
	return c.flush(ctx)
}

func (c *importing) pastOf(row mapping.Row, op mapping.Operation) record.Past {
	source := ledger.Source{Pipeline: cmp.Or(op.Source, c.mapping.Name), Run: op.Run}
	return record.Past{Request: record.Request{ID: op.ID, Kind: op.Kind, Scope: op.Scope, Key: op.Key, Input: op.Input, Source: source, Token: op.Token, TokenSent: op.Token != "",
		KeySent: op.KeySent, Remark: "taken over from " + c.mapping.Name + ", " + c.place(row)},
		SentAt: op.At, Outcome: op.Outcome, Proof: op.Proof, ErrorClass: op.ErrorClass, Error: op.Error}
}

// place is where a row stands.
func (c *importing) place(row mapping.Row) string {
	if c.file == "" {
		return row.Place
	}
	return row.Place + " of " + c.file
}

// refuse tells of a row that is no operation, and keeps it, or ends the import.
func (c *importing) refuse(ctx context.Context, row mapping.Row, why error) error {
	var bad *mapping.RowError
	if !errors.As(why, &bad) { // the source cannot be read on
		return cmp.Or(c.flush(ctx), error(&failure{Exit: exitError, Code: "bad_source", Message: cmp.Or(c.file, "standard input") + ": " + why.Error(), Hint: "what stands before it is recorded; the same command again goes on behind it"}))
	}
	c.done.Bad++
	message := c.place(row) + ": " + bad.Message
	if c.skipBad == "" {
		return cmp.Or(c.flush(ctx), error(&failure{Exit: exitError, Code: "bad_row", Message: message,
			Hint: strings.TrimPrefix(bad.Hint+"\nor go on without it: --skip-bad FILE; what stands before it is recorded, and not once more", "\n")}))
	}
	if c.bad == nil {
		f, err := os.OpenFile(c.skipBad, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return usage("--skip-bad: "+err.Error(), "name a file that is not there yet")
		}
		c.bad = f
	}
	if c.done.Bad <= badTold {
		c.progress("")
		c.errOut.Println(message)
	}
	_, err := c.bad.Write(append(slices.Clone(row.Text), '\n'))
	return err
}

// ended says what became of the rows.
func (c *importing) ended(ctx context.Context, err error) error {
	c.progress("")
	if c.bad != nil {
		err = cmp.Or(err, c.bad.Close())
	}
	for _, kind := range slices.Sorted(maps.Keys(c.kinds)) {
		k := c.policy.Kind(kind)
		c.done.Kinds = append(c.done.Kinds, importKindJSON{kind, c.kinds[kind], k.Known, k.Read != nil})
	}
	effect := effectCreated
	switch {
	case c.done.Recorded == 0:
		effect = effectNoop
	case c.dryRun:
		effect = effectWouldCreate
	}
	switch {
	case err == nil && c.done.Bad == 0:
		return c.app.done(effect, c.done, c.print)
	case err == nil:
		err = &failure{Exit: exitError, Code: "bad_row", Message: fmt.Sprintf("%s %s not taken over; see %s", ledger.Count(c.done.Bad), plural(c.done.Bad, "row was", "rows were"), short(c.skipBad)), Hint: "mend them there, and import that file"}
	case ctx.Err() != nil:
		err = &failure{Exit: exitError, Code: "stopped", Message: "stopped; what was recorded stays", Hint: "the same command again goes on"}
	}
	f := *asFailure(err)
	if f.Data == nil && f.Exit != exitUsage {
		f.Data, f.Effect, f.Text = c.done, effect, c.print
	}
	return &f
}

// print is the account for people.
func (c *importing) print(w *safe.Writer) {
	verb := "recorded"
	if c.dryRun {
		verb = "would be recorded"
	}
	line := fmt.Sprintf("%s %s read: %s %s", ledger.Count(c.done.Read), plural(c.done.Read, "row", "rows"), ledger.Count(c.done.Recorded), verb)
	for _, part := range []struct {
		n    int
		what string
	}{{c.done.Known, "there already"}, {c.done.KnownKey, "known by their key"}, {c.done.LeftOut, "left out by the mapping"}, {c.done.Bad, "bad"}} {
		if part.n > 0 {
			line += ", " + ledger.Count(part.n) + " " + part.what
		}
	}
	w.Println(line)
	unchecked := 0
	writeColumns(w, []string{"KIND", "ROWS", "CHECK"}, len(c.done.Kinds), func(i int) []string {
		k := c.done.Kinds[i]
		check := "by the policy"
		switch {
		case !k.Policy:
			check = "none: no policy for this kind"
		case !k.Check:
			check = "none: its policy says no read"
		}
		if !k.Check {
			unchecked++
		}
		return []string{k.Kind, ledger.Count(k.Rows), check}
	})
	if c.dryRun {
		writeColumns(w, []string{"FIRST", "KIND", "KEY", "SENT AT", "TITLE"}, len(c.done.First), func(i int) []string {
			r := c.done.First[i]
			return []string{r.Place, r.Kind, r.Key, *r.At, r.Title}
		})
		return
	}
	if c.done.Recorded > 0 && unchecked < len(c.done.Kinds) {
		w.Println()
		w.Println("Nothing was sent. Look for their effects: indoubt engine, or keep a console open")
	} else if c.done.Recorded > 0 {
		w.Println()
		w.Println("Nothing was sent. A check settles them: see the page on policies, or decide by hand: indoubt list")
	}
}
