package cli

import (
	"context"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
)

type redaction struct {
	*base.App
	flags decideFlags
	mask  ledger.Mask         // the ledger's
	done  bool                // something was redacted
	texts []string            // that were taken out
	in    string              // the directory of what a prune has moved
	moved map[string][]string // by file: the ids of what was redacted
}

func newRedactCommand(a *base.App) *cobra.Command {
	r := &redaction{App: a, moved: map[string][]string{}}
	flags := &r.flags
	cmd := newDecidingCommand("redact", "Take out what an operation says, for good",
		`Take the text out of settled operations, for good: input, command and request, answers,
receipts, title, target, session, errors, evidence, reasons, marks, and what decisions and
its outage's history say of it. Each text becomes [redacted]. Those that the ledger
compares (receipts, target, marks; with --key, the key) become a digest under the ledger's
key: so the same key is still refused or answered, and a late answer is still told from a
new one. Who lacks the ledger's key cannot redact.

What stays: id, kind, key, token, the digest of the input, times, states, outcomes, costs,
and who decided what and when. An event says who redacted it, when and why: write no
personal text in --reason. It cannot be sent again from here, and a check that needs what
is gone cannot tell.

What is in flight, in doubt or in conflict is refused: settle it first. The operations are
shown, and "redact" is to be typed; without a terminal it needs ID@VERSION and --yes. The
filter of "indoubt list" looks in title, target, key, pipeline and receipt, and not in
inputs and answers: search those in "indoubt list --all -o jsonl".

The ledger's file is written anew, so that its free pages do not hold the text; writers
wait meanwhile. What "indoubt prune" has moved is taken out of its file with --in.
Backups, copies and standbys made before hold the text still; the answer names them, and
outages whose notes have something of it. So do operations of their own: the same request
sent under another key, and notices about it. What was ended half-way is ended by the
same command again.`,
		"  indoubt redact 0198c1de-7a3b --dry-run\n  indoubt redact 0198c1de-7a3b --reason 'erasure request 7'", flags)
	cmd.Flags().BoolVar(&flags.key, "key", false, "the idempotency key, too: its digest stays, by which the same key is still found")
	cmd.Flags().StringVar(&r.in, "in", "", "the directory that \"indoubt prune\" has moved it to")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !a.Terminal() && !flags.yes && !flags.dryRun {
			return &base.Failure{Code: "no_person", Message: "cannot redact: it is for good, and no one at a terminal confirms it", Hint: "look with --dry-run, then add --yes"}
		}
		if flags.dryRun && strings.TrimSpace(flags.reason) == "" {
			flags.reason = "dry run"
		}
		err := decideAll(cmd.Context(), a, "redact", args, flags, needs{version: true, reason: true, shows: r.show}, r.one)
		r.clean(cmd.Context())
		return errors.Join(err, r.forget())
	}
	return cmd
}

// show tells a person what it is of, and has them type that they mean it. Who lacks the ledger's key is refused.
func (r *redaction) show(ctx context.Context, run *decisionRun, found []*ledger.Record) (err error) {
	if r.mask, err = run.store.DigestKey(ctx); err != nil {
		return err
	}
	if run.flags.yes || run.flags.dryRun || !slices.ContainsFunc(found, func(rec *ledger.Record) bool { return rec != nil }) {
		return nil
	}
	for _, rec := range found {
		if rec == nil {
			continue
		}
		v := base.See(run.policy, *rec)
		r.ErrOut.Printf("%s@%d  %s  %s\n", v.Row.ID, v.Row.Version, v.State(), v.Title())
	}
	if typed, err := r.Ask("This cannot be undone. Type redact to go on: "); err != nil || typed != "redact" {
		return &base.Failure{Code: "no_person", Message: "nothing was changed"}
	}
	return nil
}

// one redacts an operation, or what came since it was redacted.
func (r *redaction) one(ctx context.Context, run *decisionRun, rec ledger.Record, seen ledger.RunItem, changeID string) (out resultJSON, err error) {
	rec.Mask = r.mask // for a rehearsal
	if out, err = decide(ctx, run, rec, seen, changeID); err != nil || run.flags.dryRun {
		return out, err
	}
	r.done = true
	if o := rec.Operation; o.Moved != "" {
		r.moved[o.Moved] = append(r.moved[o.Moved], o.ID)
	}
	r.texts = append(r.texts, rec.Operation.Texts()...)
	if run.flags.key {
		r.texts = append(r.texts, rec.Operation.Key)
	}
	return out, nil
}

// forgetter is a store that made files by pruning.
type forgetter interface {
	Forget(file string, ids []string) error
}

// forget takes the text out of the files that a prune made.
func (r *redaction) forget() (err error) {
	for _, file := range slices.Sorted(maps.Keys(r.moved)) {
		if r.in == "" {
			r.Warnf("the text is still in %s: give --in with its directory, and the newest version", file)
			continue
		}
		err = errors.Join(err, r.Store.(forgetter).Forget(filepath.Join(r.in, file), r.moved[file]))
	}
	return err
}

// scrubber takes what is redacted out of a store's files.
type scrubber interface {
	Scrub(ctx context.Context) (left string, err error)
}

// clean cleans the ledger's files, and says what may still hold the text.
func (r *redaction) clean(ctx context.Context) {
	r.outages(ctx)
	s, ok := r.Store.(scrubber)
	if !ok || !r.done {
		return
	}
	left, err := s.Scrub(ctx)
	if err != nil {
		r.Warnf("the text may still be in free pages and the log of the ledger: %v; the same command with its newest version tries again", err)
		return
	}
	r.Warnf("the text may still be in %s", left)
}

// outages names the outages whose history has something of what was taken out. They
// are about other operations, too, and stay as they are.
func (r *redaction) outages(ctx context.Context) {
	if r.Store == nil || len(r.texts) == 0 {
		return
	}
	var found []string
	all, err := r.Store.Outages(ctx, r.Clock(), math.MaxInt32)
	for _, in := range all {
		account, failed := r.Store.Outage(ctx, in.ID, r.Clock())
		err = errors.Join(err, failed)
		if slices.ContainsFunc(account.Events, func(e ledger.Event) bool { return e.Tells(r.texts) }) {
			found = append(found, in.ID)
		}
	}
	if err != nil {
		r.Warnf("the notes of outages were not all looked in for the text: %v", err)
	}
	if len(found) > 0 {
		r.Warnf("the text is still in the notes of %s, which stay", strings.Join(found, ", "))
	}
}
