package cli

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"indoubt/ledger"
)

func newAckCommand(a *app) *cobra.Command {
	var flags decideFlags
	cmd := a.newDecidingCommand("ack", "Deal with a conflict: say what is true of it",
		`Deal with a conflict (happened twice, landed but different, a decision that was
wrong) by what is true of it, which settles it:

  taken_back   an effect was taken back outside: --reference REFUND
  both_wanted  every effect was wanted: --reason TEXT
  landed_once  one effect is this one's: --receipt R, where several are known
  not_landed   no effect is this one's: --reason TEXT

landed_once needs no reason where a check found exactly one effect of what was
recorded as not landed, and no send was allowed since. It covers the receipts
known now, no later ones. --reference alone means taken_back, --receipt alone
landed_once.`,
		"  indoubt ack 0198c1de-7a3b@5 --truth taken_back --reference re_771\n  indoubt ack 0198c1de-7a3b@5 --truth landed_once", &flags,
		func(r ledger.Row) bool { return r.Conflict != ledger.NoConflict })
	f := cmd.Flags()
	f.StringVar(&flags.truth, "truth", "", "taken_back, both_wanted, landed_once or not_landed")
	f.StringVar(&flags.reference, "reference", "", "taken_back: the refund, the ticket")
	f.StringArrayVar(&flags.receipts, "receipt", nil, "landed_once: the receipt that is its own")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		truth, err := a.truth(flags)
		if err != nil {
			return err
		}
		flags.truth = string(truth)
		return a.decide(cmd.Context(), "ack", args, &flags, needs{version: true},
			decision(ledger.VerbAck, func(r *decisionRun, d *ledger.Decision) error {
				d.Truth, d.Reference, d.Receipts = truth, flags.reference, flags.receipts
				return nil
			}))
	}
	return cmd
}

// truth is what was said to be true, or is asked for at a terminal.
func (a *app) truth(flags decideFlags) (ledger.Truth, error) {
	said := ledger.Truth(flags.truth)
	switch {
	case said != "":
	case flags.reference != "":
		said = ledger.TakenBack
	case len(flags.receipts) > 0:
		said = ledger.LandedOnce
	case a.terminal():
		question := ""
		for i, t := range ledger.Truths {
			question += fmt.Sprintf("  %d  %s\n", i+1, t.Words())
		}
		answer, err := a.ask(question + "What is true? ")
		if n, bad := strconv.Atoi(answer); err == nil && bad == nil && n >= 1 && n <= len(ledger.Truths) {
			said = ledger.Truths[n-1]
		}
	}
	if !slices.Contains(ledger.Truths, said) {
		message := "ack needs what is true"
		if flags.truth != "" {
			message = fmt.Sprintf("--truth %q is none of the four", flags.truth)
		}
		return "", usage(message, "add --truth taken_back, both_wanted, landed_once or not_landed")
	}
	return said, nil
}
