package cli

import (
	"github.com/spf13/cobra"

	"indoubt/ui/safe"
)

func newBackupCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "backup TO", GroupID: groupCare,
		Short: "Copy the ledger, also while others write",
		Long: `Copy the ledger as it is now to a new file, with its key beside it. It ends while
others write, and changes nothing. A copy is only looked at until it is adopted.

To restore one: end everything that writes, move ledger.db, ledger.db-wal,
ledger.db-shm and ledger.db.key away together, put the copy and its key in their
place, and say "indoubt adopt".`,
		Example: "  indoubt backup /backup/ledger-$(date +%F).db",
		Args:    exactly("the file to copy to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.ledgerFor(cmd.Context(), toLook)
			if err != nil {
				return err
			}
			at, err := a.place()
			if err != nil {
				return err
			}
			if err := at.Backup(cmd.Context(), s, args[0]); err != nil {
				return err
			}
			return a.done(effectCreated, map[string]any{"path": args[0]}, func(w *safe.Writer) { w.Println("copied to " + short(args[0])) })
		},
	}
}
