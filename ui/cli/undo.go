package cli

import (
	"github.com/spf13/cobra"

	"indoubt/ledger"
)

func newUndoCommand(a *app) *cobra.Command {
	var flags decideFlags
	cmd := a.newDecidingCommand("undo", "Take a decision back: it is in doubt again, or as it was",
		`Take back that an operation landed or did not land. It is in doubt again, and
only a person settles it. What was sent cannot be taken back, and after another
attempt there is no undo. An operation that was abandoned is again what it was,
with its proofs.`,
		"  indoubt undo 0198c1de-7a3b@4 --reason 'that was another charge'", &flags,
		func(r ledger.Row) bool {
			return r.State == ledger.Committed || r.State == ledger.Failed || r.State == ledger.Abandoned
		})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.decide(cmd.Context(), "undo", args, &flags, needs{version: true, reason: true}, decision(ledger.VerbUndo, nil))
	}
	return cmd
}
