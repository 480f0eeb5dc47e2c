package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"indoubt/ledger"
)

func newInitCommand(a *app) *cobra.Command {
	var dryRun, anew bool
	cmd := &cobra.Command{
		Use: "init", GroupID: groupCare,
		Short: "Make an empty ledger",
		Long: `Make an empty ledger, readable by you alone. One that exists is left as it is.
Where one was before, nothing is made: what was sent then would be sent again.
--anew makes one all the same.`,
		Example: "  indoubt init\n  indoubt --ledger /srv/payments/ledger.db init",
		Args:    noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.mayChange("make a ledger"); err != nil && !dryRun {
				return err
			}
			path := a.ledgerFile()
			s, err := a.ledgerFor(cmd.Context(), toLook)
			switch {
			case err == nil:
				info, err := s.Info(cmd.Context())
				if err != nil {
					return err
				}
				return a.done(effectNoop, ledgerJSON(info), func(w io.Writer) { fmt.Fprintln(w, "there is a ledger at "+short(path)+" already") })
			case !isMissing(err), asFailure(err).Code == "former" && !anew:
				return err
			case dryRun:
				return a.done(effectWouldCreate, map[string]any{"path": path}, func(w io.Writer) { fmt.Fprintln(w, "would make a ledger at "+short(path)) })
			}
			why := toCreate
			if anew {
				why = toMakeAnew
			}
			s, err = a.ledgerFor(cmd.Context(), why)
			if err != nil {
				return err
			}
			info, err := s.Info(cmd.Context())
			if err != nil {
				return err
			}
			return a.done(effectCreated, ledgerJSON(info), func(w io.Writer) {
				fmt.Fprintln(w, "made a ledger at "+short(path))
				if file, _ := a.policyFile(); !exists(file) {
					fmt.Fprintln(w, "next: indoubt policy init, and in your pipeline: indoubt run --kind post -- curl --fail-with-body …")
				}
			})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would happen and change nothing")
	cmd.Flags().BoolVar(&anew, "anew", false, "also where a ledger was that is gone for good")
	repeatable(cmd)
	return cmd
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func ledgerJSON(i ledger.Info) map[string]any {
	return map[string]any{"id": i.ID, "path": i.Path, "schema": i.Schema, "created_at": moment(i.CreatedAt), "last_seq": i.LastSeq,
		"last_write": moment(i.LastWrite), "read_only": i.ReadOnly, "copied": text(i.Copied)}
}
