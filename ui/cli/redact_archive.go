package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"indoubt/ledger"
	"indoubt/ledger/archive"
	"indoubt/ui/safe"
)

// place finds the directory that --archive names, and the file in it, where it names one.
func (r *redaction) place() error {
	if r.archive == "" {
		return nil
	}
	info, err := os.Stat(r.archive)
	if err != nil {
		return &failure{Code: "not_found", Message: r.archive + " cannot be read", Hint: "name the directory that the archives are kept in: --archive DIR", cause: err}
	}
	if r.dir = filepath.Clean(r.archive); !info.IsDir() {
		r.dir, r.file = filepath.Split(r.dir)
		r.dir = filepath.Clean(r.dir)
	}
	return nil
}

// find finds an operation in the ledger, or in an archive where the ledger keeps nothing of
// it. What an archive holds is redacted there, too, or not at all.
func (r *redaction) find(ctx context.Context, s ledger.Store, id string) (ledger.Record, error) {
	rec, err := r.read(ctx, s, id)
	switch file := rec.Operation.Archive; {
	case err == nil && file != "" && r.archive == "":
		return rec, &failure{Code: "incomplete", Message: fmt.Sprintf("%s is archived, and %s has all that it says", rec.Operation.ID, file),
			Hint: "name the directory that the file is kept in: --archive DIR"}
	case !errors.Is(err, ledger.ErrNotFound):
		return rec, err
	case r.archive == "":
		return rec, orArchived(ctx, s, err, "if it is archived, name it whole, and where its archive is: --archive DIR")
	}
	all, failed := s.Archives(ctx)
	if failed != nil {
		return rec, failed
	}
	switch w, failed := archive.Held(r.dir, r.file, all, id); {
	case errors.Is(failed, ledger.ErrNotFound):
		return rec, err
	case failed != nil:
		return rec, filesFailure(failed, r.dir)
	default:
		r.filed[id] = w // the run that is recorded has nothing of its text
		return w.Without(r.flags.key, r.clock(), r.actor().Name).Record(r.clock()), nil
	}
}

// whole is an operation with what its archive has of it.
func (r *redaction) whole(ctx context.Context, s ledger.Store, rec ledger.Record) (ledger.Record, []ledger.Event, error) {
	if w, filed := r.filed[rec.Operation.ID]; filed {
		return w.Record(r.clock()), w.Events, nil
	}
	events, err := s.History(ctx, ledger.HistoryQuery{Operation: rec.Operation.ID, Limit: maxEvents})
	if err != nil || r.archive == "" || rec.Operation.Archive == "" {
		return rec, events, err
	}
	all, more, err := unarchived(r.dir, rec, events)
	if err != nil { // which is said when the file is redacted
		return rec, events, nil //nolint:nilerr // the ledger's part is redacted all the same
	}
	return all, more, nil
}

// gone reports whether the ledger says nothing more of an operation that was redacted.
func (r *redaction) gone(ctx context.Context, run *decisionRun, rec ledger.Record) (bool, error) {
	if _, filed := r.filed[rec.Operation.ID]; filed || rec.Operation.RedactedAt.IsZero() {
		return filed, nil
	}
	events, err := run.store.History(ctx, ledger.HistoryQuery{Operation: rec.Operation.ID, Limit: maxEvents})
	events = slices.DeleteFunc(events, func(e ledger.Event) bool { return e.Verb == string(ledger.VerbRedact) })
	return len(rec.Personal(events, run.flags.key)) == 0, err
}

// unread says in the result which archives were not looked in and may hold an operation: one
// that changed while it was archived is in a file, and in the ledger too. A file that is being
// made may have read it before.
func (r *redaction) unread(ctx context.Context, run *decisionRun, o ledger.Operation, out *resultJSON) error {
	all, err := run.store.Archives(ctx)
	for _, a := range all {
		without := a.Removed == a.Operations && o.Archive == "" || r.archive != "" && (r.file == "" || r.file == a.File)
		if a.Digest == "" {
			without = !a.ClosedAt.IsZero()
		}
		if without || !archive.May(a, o.ID, o.CreatedAt) {
			continue
		}
		out.Unread, out.line = append(out.Unread, a.File), safe.Say("%s\n    it may be in %s too, which was not looked in: --archive DIR", out.line, a.File)
	}
	return err
}

// files redacts an operation in the archives, and says so in its result.
func (r *redaction) files(ctx context.Context, run *decisionRun, o ledger.Operation, out *resultJSON) error {
	if err := r.unread(ctx, run, o, out); err != nil || r.archive == "" || run.flags.dryRun {
		return err
	}
	done, err := archive.Redact(ctx, run.store, archive.Redaction{Dir: r.dir, File: r.file, ID: o.ID, Begun: o.CreatedAt, Key: run.flags.key, Actor: run.actor, Reason: run.flags.reason, Now: r.clock()})
	for _, file := range done {
		out.Effect, out.Archives, out.line = effectUpdated, append(out.Archives, file), safe.Say("%s\n    and in %s", out.line, file)
	}
	if err != nil {
		return filesFailure(err, r.dir)
	}
	return nil
}

// filesFailure says why archives are not redacted, and what to do.
func filesFailure(err error, dir string) error {
	var damaged *archive.Damaged
	switch {
	case errors.Is(err, archive.ErrBusyDir):
		return &failure{Code: "busy", Message: "other operations are being redacted in " + dir, Hint: "run it again when that is done", cause: err}
	case errors.As(err, &damaged):
		return archiveFailure(err, dir, filepath.Base(damaged.File))
	case errors.Is(err, fs.ErrNotExist):
		return &failure{Code: "not_found", Message: fmt.Sprintf("%s has not every file that may hold it: %v", dir, err),
			Hint: "put the files back and run it again; --archive FILE redacts in one", cause: err}
	}
	return err
}
