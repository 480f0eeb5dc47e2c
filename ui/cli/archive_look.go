package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/archive"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

func newArchiveListCommand(a *app) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use: "list [--from DIR]", Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Short: "List the archives of a ledger, and check their files",
		Long: `List the archives of a ledger, the newest first. With --from each file is read there, and
its SHA-256 compared with what the ledger has written down.`,
		Example: "  indoubt archive list\n  indoubt archive list --from /var/lib/indoubt/archive",
		RunE:    func(cmd *cobra.Command, _ []string) error { return archiveCommand{a}.list(cmd.Context(), from) },
	}
	cmd.Flags().StringVar(&from, "from", "", "the directory of the files, to check them")
	_ = cmd.MarkFlagDirname("from")
	return cmd
}

// archiveJSON is one archive.
type archiveJSON struct {
	File    string  `json:"file"`
	Digest  string  `json:"sha256"`
	Size    int64   `json:"bytes"`
	Removed int     `json:"operations"`
	Oldest  *string `json:"oldest"`
	Newest  *string `json:"newest"`
	Before  *string `json:"settled_before"`
	Actor   string  `json:"actor"`
	At      *string `json:"created_at"`
	Found   string  `json:"found,omitempty"` // ok, missing, damaged, unfinished
}

// sealed are the archives of a ledger that operations have gone to.
func sealed(ctx context.Context, s ledger.Archiver) ([]ledger.Archive, error) {
	all, err := s.Archives(ctx)
	return slices.DeleteFunc(all, func(a ledger.Archive) bool { return a.Digest == "" }), err
}

// archivedSince is how many operations may have changed since a time and are archived: what
// is counted or told of that time in the ledger lacks them.
func archivedSince(ctx context.Context, s ledger.Archiver, from time.Time) (n int, err error) {
	all, err := s.Archives(ctx)
	for _, a := range all {
		if a.Before.After(from) {
			n += a.Removed
		}
	}
	return n, err
}

// leftArchived says how many operations are archived, and not among those that were found.
func leftArchived(ctx context.Context, a *app, s ledger.Archiver, from time.Time) error {
	n, err := archivedSince(ctx, s, from)
	if n > 0 {
		a.left("%s", ticket.Archived(n).String())
	}
	return err
}

func (a archiveCommand) list(ctx context.Context, from string) error {
	s, err := a.ledgerFor(ctx, toLook)
	if err != nil {
		return err
	}
	all, err := sealed(ctx, s)
	if err != nil {
		return err
	}
	slices.Reverse(all)
	out, bad, unfinished := make([]archiveJSON, len(all)), 0, 0
	for i, f := range all {
		out[i] = archiveJSON{f.File, f.Digest, f.Size, f.Removed, moment(f.Oldest), moment(f.Newest), moment(f.Before), f.Actor.Name, moment(f.CreatedAt), ""}
		if from == "" {
			continue
		}
		var damaged *archive.Damaged
		switch err := archive.Check(from, f); {
		case err == nil:
			out[i].Found = "ok"
		case errors.Is(err, fs.ErrNotExist):
			out[i].Found = "missing"
		case errors.Is(err, archive.ErrUnfinished):
			out[i].Found, unfinished = "unfinished", unfinished+1
		case errors.As(err, &damaged):
			out[i].Found = "damaged"
		default:
			return err
		}
		if out[i].Found != "ok" {
			bad++
		}
	}
	text := func(w *safe.Writer) {
		if len(all) == 0 {
			w.Println("No archive.")
		}
		for i, f := range all {
			w.Println(safe.Say("%s  %7d operations, begun %s to %s, by %s  %s", f.File, f.Removed, day(f.Oldest), day(f.Newest), f.Actor.Name, out[i].Found))
		}
	}
	if unfinished > 0 && unfinished == bad {
		return &failure{Code: "unwell", Data: out, Text: text, Message: fmt.Sprintf("%d of %d files hold what was redacted", bad, len(all)),
			Hint: "run the same `indoubt redact ID --archive " + from + "` again, which was ended half-way"}
	}
	if bad > 0 {
		return &failure{Code: "damaged", Data: out, Text: text, Message: fmt.Sprintf("%d of %d files are missing in %s, or damaged", bad, len(all), from),
			Hint: "take them from a backup: they are the only copy of what they hold"}
	}
	return a.done("", out, text)
}

// archiveFailure says which file cannot be read, and what to do.
func archiveFailure(err error, dir, file string) error {
	var damaged *archive.Damaged
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &failure{Code: "not_found", Message: fmt.Sprintf("%s has no %s", dir, file),
			Hint: "name the directory that the archives are kept in", cause: err}
	case errors.As(err, &damaged):
		return &failure{Code: "damaged", Message: fmt.Sprintf("%s is damaged", filepath.Join(dir, file)),
			Hint: "take it from a backup; `indoubt archive list --from DIR` compares all files with what the ledger has written down", cause: err}
	}
	return err
}

// forgotten finds an operation of which the ledger keeps nothing, in the files that may have it.
func forgotten(ctx context.Context, s ledger.Archiver, dir, id string) (ledger.Record, []ledger.Event, error) {
	files, err := sealed(ctx, s)
	if err != nil {
		return ledger.Record{}, nil, err
	}
	slices.Reverse(files)
	for _, f := range files {
		if !archive.May(f, id, time.Time{}) {
			continue
		}
		w, err := archive.Find(dir, f.File, id)
		if errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		if err != nil {
			return ledger.Record{}, nil, archiveFailure(err, dir, f.File)
		}
		w.Operation.Archive = f.File
		return w.Record(time.Now()), w.Events, nil
	}
	return ledger.Record{}, nil, &failure{Code: "not_found", Message: fmt.Sprintf("there is no operation %q in the ledger, nor in its %d archives", id, len(files)),
		Hint: "an archived operation is found by its whole id; `zgrep -h KEY` in the directory of the files finds one by its key"}
}

// orArchived says of what is not found that it may be archived, and what helps then.
func orArchived(ctx context.Context, s ledger.Archiver, err error, hint string) error {
	var f *failure
	if files, e := sealed(ctx, s); e == nil && len(files) > 0 && errors.Is(err, ledger.ErrNotFound) && errors.As(err, &f) {
		f.Hint = hint
	}
	return err
}

func day(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.Local().Format(time.DateOnly)
}
