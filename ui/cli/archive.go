package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/archive"
	"indoubt/ui/safe"
)

// archiveCommand moves what settled long ago to files.
type archiveCommand struct{ *app }

type archiveFlags struct {
	settledFor, to string
	dryRun         bool
}

func newArchiveCommand(a *app) *cobra.Command {
	var flags archiveFlags
	cmd := &cobra.Command{
		Use: "archive --settled-for AGE --to DIR", GroupID: groupCare,
		Short: "Move operations that settled long ago from the ledger to compressed files",
		Long: `Move operations that settled at least so long ago to files in a directory: JSON,
an operation a line, compressed with gzip. Each file is read back, and its digest
recorded, before anything leaves the ledger. Others may write meanwhile: it takes
a few operations at a time, and rests in between for as long as others write.

The ledger remembers of each its key, its outcome, its attempts and its marks. So
no key is sent again, a late answer still raises a contradiction, and the odds
stay. Only what was never in doubt and has given up the key that its caller
brought (ttl: in the policy) is forgotten but for its file. What is in doubt, in conflict, parked or in an open
incident or run stays; so does what a person may still act on in a closed incident,
and the newest control of each kind.

"indoubt show ID --archive DIR" shows an archived operation whole, "archive list"
checks the files. It can be ended and started again
at any time. Keep the files: they are the only copy of what they hold.`,
		Example: "  indoubt archive --settled-for 90d --to /var/lib/indoubt/archive --dry-run\n  indoubt archive --settled-for 90d --to /var/lib/indoubt/archive",
		Args:    noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return archiveCommand{a}.run(cmd.Context(), flags) },
	}
	cmd.Flags().StringVar(&flags.settledFor, "settled-for", "", "how long ago it settled, at least: 90d, 2160h")
	cmd.Flags().StringVar(&flags.to, "to", "", "the directory of the files; it is made")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "count, and change nothing")
	_ = cmd.MarkFlagDirname("to")
	cmd.AddCommand(newArchiveListCommand(a))
	return cmd
}

// archivedJSON is what was archived.
type archivedJSON struct {
	archive.Progress
	Dir    string  `json:"dir"`
	Before *string `json:"settled_before"`
}

func (a archiveCommand) run(ctx context.Context, flags archiveFlags) error {
	age, err := ledger.ParseDuration(flags.settledFor)
	switch {
	case flags.settledFor != "" && (err != nil || age < 0):
		return usage(fmt.Sprintf("--settled-for %q is not a duration", flags.settledFor), "write --settled-for 90d or 2160h; 0s for all that is settled")
	case flags.settledFor == "":
		return usage("--settled-for is missing", "say how long ago what is archived settled, at least: --settled-for 90d")
	case flags.to == "":
		return usage("--to is missing", "name the directory of the archive: --to DIR")
	}
	dir, err := filepath.Abs(flags.to)
	if err != nil {
		return err
	}
	s, err := a.ledgerFor(ctx, toChange.unless(flags.dryRun))
	if err != nil {
		return err
	}
	o := archive.Options{Dir: dir, Before: a.clock().Add(-age), Actor: a.actor(), DryRun: flags.dryRun, Progress: a.progress()}
	p, err := archive.Run(ctx, s, o)
	if err != nil && p.Removed > 0 {
		a.left("%s operations are archived; the others stay in the ledger", ledger.Count(p.Removed))
	}
	if err != nil {
		return notArchived(err)
	}
	effect := effectUpdated
	switch {
	case p.Operations == 0:
		effect = effectNoop
	case flags.dryRun:
		effect = effectWouldUpdate
	}
	return a.done(effect, archivedJSON{p, dir, moment(o.Before)}, func(w *safe.Writer) {
		switch {
		case p.Operations == 0:
			w.Println(safe.Say("nothing to archive: no operation that can leave settled before %s", clockTime(o.Before)))
		case flags.dryRun:
			w.Println(safe.Say("%s, %s as text, settled before %s and would be archived in %s", operations(p.Operations), amountOf(p.Plain), clockTime(o.Before), short(dir)))
		default:
			w.Println(safe.Say("%s archived in %s, %d %s of %s", operations(p.Removed), short(dir), p.Files, plural(p.Files, "file", "files"), amountOf(p.Packed)))
			if p.Moved > 0 {
				w.Println(safe.Say("%s changed meanwhile, and stay", ledger.Count(p.Moved)))
			}
			for _, file := range p.Found {
				w.Println(safe.Say("%s was left by a run that was cut off: it is whole, and is listed now", file))
			}
		}
	})
}

// notArchived says who else archives; what the system says of the files needs no words of its own.
func notArchived(err error) error {
	if leased := (*ledger.LeasedError)(nil); errors.As(err, &leased) {
		return &failure{Code: "busy", Message: fmt.Sprintf("%s is archiving, or was cut off at it: no other archive is begun before %s", leased.Holder, clockTime(leased.Until)), Hint: "try again then", cause: err}
	}
	return err
}

func operations(n int) string {
	return fmt.Sprintf("%s %s", ledger.Count(n), plural(n, "operation", "operations"))
}

// progress tells a person at a terminal how far it has come, once a second.
func (a archiveCommand) progress() func(archive.Progress) {
	told := time.Now()
	return func(p archive.Progress) {
		if !a.json && time.Since(told) >= time.Second {
			told = time.Now()
			a.errOut.Println(safe.Say("%s to archive, %s archived", operations(p.Operations), ledger.Count(p.Removed)))
		}
	}
}

// amountOf is a number of bytes as a person reads it.
func amountOf(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	}
	return fmt.Sprintf("%d MB", n/1_000_000)
}

// unarchived is an operation with what its archives have of it, and its history: one that
// returned and was archived again is in several, the newest first.
func unarchived(dir string, rec ledger.Record, events []ledger.Event) (ledger.Record, []ledger.Event, error) {
	o, seen := &rec.Operation, []string{}
	for file := o.Archive; file != "" && !slices.Contains(seen, file); {
		w, err := archive.Find(dir, file, o.ID)
		if err != nil {
			return rec, events, archiveFailure(err, dir, file)
		}
		was := w.Operation
		seen, file = append(seen, file), was.Archive
		o.Input, o.Command, o.Request, o.Title, o.Session, o.Source = was.Input, was.Command, was.Request, was.Title, was.Session, was.Source
		if o.Version == was.Version {
			o.Result, o.Reason = was.Result, was.Reason
		}
		for i, attempt := range w.Attempts {
			if i < len(rec.Attempts) && rec.Attempts[i].LateOutcome == attempt.LateOutcome {
				rec.Attempts[i] = attempt
			}
		}
		rec.Reads, rec.Grants = append(rec.Reads, w.Reads...), append(rec.Grants, w.Grants...)
		for _, e := range events {
			if !slices.ContainsFunc(w.Events, func(known ledger.Event) bool { return known.ID == e.ID }) {
				w.Events = append(w.Events, e)
			}
		}
		events = w.Events
	}
	return rec, events, nil
}
