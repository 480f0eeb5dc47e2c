package cli

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"indoubt/ledger/sqlite"
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
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.ledgerFor(cmd.Context(), toLook)
			if err != nil {
				return err
			}
			store, ok := s.(*sqlite.Store)
			if !ok {
				return &failure{Exit: exitError, Code: "no_file", Message: "this ledger is no file"}
			}
			err = store.Backup(cmd.Context(), args[0])
			if errors.Is(err, fs.ErrExist) {
				return &failure{Exit: exitError, Code: "exists", Message: err.Error(), Hint: "give the copy a name of its own", cause: err}
			}
			if err != nil {
				return err
			}
			return a.done(effectCreated, map[string]any{"path": args[0]}, func(w *safe.Writer) { w.Println("copied to " + short(args[0])) })
		},
	}
}
