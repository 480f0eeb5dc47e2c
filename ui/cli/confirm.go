package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
)

func newConfirmCommand(a *app) *cobra.Command {
	var flags decideFlags
	cmd := a.newDecidingCommand("confirm", "Say that it landed",
		`Say that a write in doubt landed. Give the receipts you found: two or more make
it "happened twice". Afterwards only a person settles it.`,
		"  indoubt confirm 0198c1de-7a3b@3 --receipt pi_3Qx --reason 'found in the dashboard'", &flags, inDoubt)
	cmd.Flags().StringArrayVar(&flags.receipts, "receipt", nil, "a receipt found; may be given more than once")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, r := range flags.receipts {
			if strings.TrimSpace(r) == "" {
				return usage("--receipt is empty", "leave it out when there is none")
			}
		}
		if len(flags.receipts) > 0 && len(args) > 1 {
			return usage("--receipt belongs to one operation, and several are named", "confirm them one by one")
		}
		return a.decide(cmd.Context(), "confirm", args, &flags, needs{version: true, reason: len(flags.receipts) == 0},
			decision(ledger.VerbConfirm, func(r *decisionRun, d *ledger.Decision) error {
				d.Receipts = flags.receipts
				return nil
			}))
	}
	return cmd
}

// inDoubt, undecided and so on choose the rows that ids are completed from.
func inDoubt(r ledger.Row) bool { return r.State == ledger.Uncertain || r.State == ledger.Pending }
