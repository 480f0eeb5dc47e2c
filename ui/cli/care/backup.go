package care

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// NewBackup is `indoubt backup`.
func NewBackup(a *base.App) *cobra.Command {
	var keep int
	cmd := &cobra.Command{
		Use: "backup TO", GroupID: base.GroupCare,
		Short: "Copy the ledger, also while others write",
		Long: `Copy the ledger as it is now to a new file, with its key beside it, and read it
back. It ends while others write, and changes no history. A copy is only looked at
until it is adopted. The ledger keeps when its newest backup was made: doctor and
metrics tell its age.

With --keep, TO is a directory. The copy gets the name LEDGER-TIME.db there, and the
oldest are removed but for so many. Others' files and ledgers stay.

To restore one, move ledger.db, ledger.db-wal, ledger.db-shm and ledger.db.key away
together, put the copy and its key in their place, and say "indoubt adopt". What is
sending then goes on, and records what it is told: reconcile/README.md, Restore.`,
		Example: "  indoubt backup /backup/before-upgrade.db\n  indoubt backup /backup --keep 14",
		Args:    base.Exactly("the file to copy to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("keep") && keep < 1 {
				return base.Usage(fmt.Sprintf("--keep %d keeps nothing", keep), "how many backups are to stay, as --keep 14")
			}
			return backup(cmd.Context(), a, args[0], keep)
		},
	}
	cmd.Flags().IntVar(&keep, "keep", 0, "TO is a directory, where so many backups of this ledger stay")
	return cmd
}

func backup(ctx context.Context, a *base.App, to string, keep int) error {
	s, err := a.LedgerFor(ctx, base.ToChange)
	if err != nil { // who may only look may copy it, and so may anyone what moved
		s, err = a.LedgerFor(ctx, base.ToLook)
	}
	if err != nil {
		return err
	}
	at, err := a.Place()
	if err != nil {
		return err
	}
	done, err := at.Backup(ctx, s, to, keep)
	if err != nil {
		return err
	}
	if done.Unknown != nil {
		a.Warnf("doctor and metrics do not know of this backup: %s", base.FirstLine(done.Unknown.Error()))
	}
	if len(done.Left) > 0 {
		a.Warnf("backups of another ledger, or that cannot be read, stay: %s", strings.Join(done.Left, " "))
	}
	return a.Done(base.EffectCreated, done, func(w *safe.Writer) {
		w.Println("copied to " + base.Short(done.Path))
		for _, path := range done.Removed {
			w.Println("removed " + base.Short(path))
		}
	})
}

// backupDue is the age of a backup that should be made every day, with time for it.
const backupDue = 26 * time.Hour

// backups says how old the newest backup is. A server's are not ours.
func (x *examination) backups(info ledger.Info) {
	age := x.a.Clock().Sub(info.Unsaved)
	switch never := info.Unsaved.Equal(info.CreatedAt); {
	case info.Unsaved.IsZero() || info.Copied != "" || info.MovedTo != "":
	case never && age > backupDue:
		x.say("backup", ledger.LevelWarn, "none of this file was ever made", "every night: indoubt backup DIRECTORY --keep 14")
	case never:
		x.ok("backup", "none yet")
	case age > backupDue:
		x.say("backup", ledger.LevelWarn, "the newest is "+ticket.Ago(age), "see why none was made since: indoubt backup DIR --keep 14")
	default:
		x.ok("backup", "the newest is %s", ticket.Ago(age))
	}
}
