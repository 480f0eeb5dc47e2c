package care

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/open"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

type copyCommand struct{ *base.App }

// NewCopy is `indoubt copy`.
func NewCopy(a *base.App) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "copy FROM TO", GroupID: base.GroupCare,
		Short: "Move a ledger to another file or database, with its whole history",
		Long: `Copy a ledger, in a file or in PostgreSQL, to a place where none is. It takes the whole
history, with the order of its events.

Nothing may be in flight in FROM, and no one writes there meanwhile: they wait. Every row is
copied, and read back. At last FROM says where it went: writers are refused, and a console
only looks.

An error, Ctrl-C or a kill leaves one ledger. Give the same command again.

The key of the digests that stand for secrets is not copied: name it in
INDOUBT_DIGEST_KEY_FILE.`,
		Example: `  indoubt copy ledger.db postgres://indoubt@db.example/ledger --dry-run
  indoubt copy ledger.db postgres://indoubt@db.example/ledger`,
		Args: base.Exactly("the ledger to copy", "where to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return copyCommand{a}.run(cmd.Context(), args[0], args[1], dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be copied, and change nothing")
	return cmd
}

func (c copyCommand) run(ctx context.Context, from, to string, dryRun bool) error {
	if err := c.MayChange("copy"); err != nil && !dryRun {
		return err
	}
	var at [2]open.Place
	for i, name := range []string{from, to} {
		if err := open.InArgument(name); err != nil {
			return err
		}
		var err error
		if at[i], err = open.At(name); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	done, err := open.Copy(ctx, at[0], at[1], c.LedgerOptions(), open.CopyOptions{DryRun: dryRun, Progress: c.progress()})
	if err != nil {
		return err
	}
	return c.Done(base.EffectOf(!dryRun, dryRun), done, func(w *safe.Writer) {
		if dryRun {
			w.Println(safe.Say("%s rows of %s would be copied to %s; in flight, and to end before: %s",
				ledger.Count(int(done.Rows)), base.Short(done.From), base.Short(done.To), ledger.Count(int(done.Pending))))
			return
		}
		w.Println(safe.Say("%s has moved to %s: %s rows copied, %d tables compared",
			base.Short(done.From), base.Short(done.To), ledger.Count(int(done.Rows)), len(done.Digests)))
		w.Println("point every writer there: --ledger / INDOUBT_LEDGER")
		if done.Key {
			w.Println("give them the key of its digests, which is not copied: INDOUBT_DIGEST_KEY_FILE")
		}
	})
}

// progress tells a person how far it has come, once a second.
func (c copyCommand) progress() func(table string, n, of int, rows int64) {
	told := time.Now()
	return func(table string, n, of int, rows int64) {
		if c.JSON || time.Since(told) < time.Second {
			return
		}
		c.ErrOut.Println(safe.Say("%s: table %d of %d, %s rows", table, n, of, ledger.Count(int(rows))))
		told = time.Now()
	}
}
