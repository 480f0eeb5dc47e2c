package cli

import (
	"github.com/spf13/cobra"

	"indoubt/ledger"
)

func newAckCommand(a *app) *cobra.Command {
	var flags decideFlags
	cmd := a.newDecidingCommand("ack", "Say that a conflict was dealt with outside",
		`Say that a conflict (happened twice, landed but different, a decision that was
wrong) was dealt with outside: refunded, deleted, accepted. It covers the
receipts known now, no later ones.`,
		"  indoubt ack 0198c1de-7a3b@5 --reason 'second one refunded' --reference re_771", &flags,
		func(r ledger.Row) bool { return r.Conflict != ledger.NoConflict })
	cmd.Flags().StringVar(&flags.reference, "reference", "", "the refund, the ticket")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.decide(cmd.Context(), "ack", args, &flags, needs{version: true, reason: true},
			decision(ledger.VerbAck, func(r *decisionRun, d *ledger.Decision) error {
				d.Reference = flags.reference
				return nil
			}))
	}
	return cmd
}
