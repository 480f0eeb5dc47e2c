package cli

import (
	"github.com/spf13/cobra"

	"indoubt/ledger"
)

func newNoteCommand(a *app) *cobra.Command {
	var flags decideFlags
	cmd := a.newDecidingCommand("note", "Leave a remark in the history",
		"Leave a remark for the next person who looks. Nothing is decided and no version is needed.",
		"  indoubt note 0198c1de-7a3b --reason 'asking their support, ticket 4411'", &flags, nil)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.decide(cmd.Context(), "note", args, &flags, needs{reason: true}, decision(ledger.VerbNote, nil))
	}
	return cmd
}
