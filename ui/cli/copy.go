package cli

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/open"
	"indoubt/ui/safe"
)

// copyCommand moves a ledger to another place.
type copyCommand struct{ *app }

type copyFlags struct {
	wait               string
	dryRun, keep, undo bool
}

func newCopyCommand(a *app) *cobra.Command {
	var flags copyFlags
	cmd := &cobra.Command{
		Use: "copy FROM TO", GroupID: groupCare,
		Short: "Move a ledger to another file or database, with its whole history",
		Long: `Copy a ledger to a place where none is: from a file to PostgreSQL, back, or to one
more of the same. It takes the whole history, with the order of its events.

From its start nothing is begun or allowed in FROM: the database refuses it, and
names TO. What is in flight ends; then nothing changes any more. Every table is
copied, and compared by a digest over its rows on both sides. At last FROM says
where it went: writers are refused, and a console only looks.

An error or Ctrl-C opens FROM again, unless --keep is given or the copy may be whole
already: the same command ends it then. A copy that was killed
goes on where it was when the same command is given again; with --undo, FROM is
opened again instead.

The key of the digests that stand for secrets is not copied. Give TO the same one:
put FROM.key beside a file as TO.key, or name it in INDOUBT_DIGEST_KEY_FILE.`,
		Example: "  indoubt copy ledger.db postgres://indoubt@db.example/ledger --dry-run\n  indoubt copy ledger.db postgres://indoubt@db.example/ledger",
		Args:    exactly("the ledger to copy", "where to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return copyCommand{a}.run(cmd.Context(), args[0], args[1], flags)
		},
	}
	cmd.Flags().StringVar(&flags.wait, "wait", "5m", "how long to wait for what is in flight")
	cmd.Flags().BoolVar(&flags.keep, "keep", false, "leave FROM closed where the copy is cut off")
	cmd.Flags().BoolVar(&flags.undo, "undo", false, "open FROM again after a copy that was killed")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "say what would be copied, and change nothing")
	return cmd
}

func (c copyCommand) run(ctx context.Context, from, to string, flags copyFlags) error {
	wait, err := positive("--wait", flags.wait)
	if err != nil {
		return err
	}
	if err := c.mayChange("copy"); err != nil && !flags.dryRun {
		return err
	}
	var at [2]open.Place
	for i, name := range []string{from, to} {
		if err := open.InArgument(name); err != nil {
			return err
		}
		if at[i], err = open.At(name); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if flags.undo {
		if flags.dryRun {
			return usage("--undo has no --dry-run", "")
		}
		if err := open.Uncopy(ctx, at[0], at[1], c.ledgerOptions()); err != nil {
			return err
		}
		return c.done(effectUpdated, map[string]any{"from": at[0].String()}, func(w *safe.Writer) { w.Println(short(at[0].String()) + " is open again") })
	}
	done, err := open.Copy(ctx, at[0], at[1], c.ledgerOptions(), open.CopyOptions{DryRun: flags.dryRun, Keep: flags.keep, Wait: wait, Progress: c.progress()})
	if err != nil {
		return err
	}
	effect := effectCreated
	if flags.dryRun {
		effect = effectWouldUpdate
	}
	return c.done(effect, done, func(w *safe.Writer) {
		if flags.dryRun {
			w.Println(safe.Say("%s rows of %s would be copied to %s, when %s operations in flight have ended", ledger.Count(int(done.Rows)), short(done.From), short(done.To), ledger.Count(int(done.Pending))))
			return
		}
		w.Println(safe.Say("%s has moved to %s: %s rows copied, %d tables compared", short(done.From), short(done.To), ledger.Count(int(done.Rows)), len(done.Digests)))
		w.Println("point every writer there: --ledger / INDOUBT_LEDGER")
		if done.Key {
			w.Println("give them the key of its digests, which is not copied: INDOUBT_DIGEST_KEY_FILE, or TO.key beside a file")
		}
	})
}

// progress tells a person how far it has come, once a second, and nothing twice.
func (c copyCommand) progress() func(open.CopyProgress) {
	told, was := time.Now(), open.CopyProgress{}
	return func(p open.CopyProgress) {
		switch {
		case c.json || time.Since(told) < time.Second || p == was:
			return
		case p.Of == 0:
			c.errOut.Println(safe.Say("in flight: %s; waiting until they end, or are in doubt at their deadline", ledger.Count(int(p.Pending))))
		default:
			c.errOut.Println(safe.Say("%s: table %d of %d, %s rows", p.Doing, p.N, p.Of, ledger.Count(int(p.Rows))))
		}
		told, was = time.Now(), p
	}
}
