package cli

import (
	"github.com/spf13/cobra"

	"indoubt/ledger"
)

func newAbandonCommand(a *app) *cobra.Command {
	var flags decideFlags
	cmd := a.newDecidingCommand("abandon", "Leave it: it is never sent again",
		"Say that no one sends a write any more.\n"+refuses+"\nWhat is known of it stays as it is, and undo restores it.",
		"  indoubt abandon 0198c1de-7a3b@3 --reason 'the campaign is over'", &flags,
		func(r ledger.Row) bool { return inDoubt(r) || r.State == ledger.Failed })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.decide(cmd.Context(), "abandon", args, &flags, needs{version: true, reason: true}, decision(ledger.VerbAbandon, nil))
	}
	return cmd
}
