package cli

import (
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

func newAdoptCommand(a *app) *cobra.Command {
	var dryRun, yes bool
	cmd := &cobra.Command{
		Use: "adopt", GroupID: groupCare,
		Short: "Make a copied or moved ledger a ledger of its own; go on after a failover",
		Long: `A ledger remembers its home. A copy, or a file that moved, is only looked at:
two ledgers that both act would send twice. adopt makes this file the one that
acts; make sure that nothing writes to the original any more. What was sent after
its newest entry is not in it, and can be sent again: it says of when that is.

A ledger in PostgreSQL notices that its database failed over or was restored: the
newest history may be missing, and nothing is begun or allowed. Look at the other
sides for what was sent last, then adopt. It needs the role indoubt_operator.`,
		Args: maxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := a.mayChange("adopt"); err != nil && !dryRun {
				return err
			}
			s, err := a.ledgerFor(ctx, toLook)
			if err != nil {
				return err
			}
			info, err := s.Info(ctx)
			if err != nil {
				return err
			}
			name, lost := short(a.ledgerName()), lostSince(info, a.clock())
			why, ask, done := info.Copied, "Does nothing write to the original any more?", " is a ledger of its own now"
			if !info.Failover.At.IsZero() {
				why, ask, done = info.Failover.String(), "Did you look at the other sides for what was sent last?", " goes on"
			}
			if why == "" {
				return a.done(effectNoop, ledgerJSON(info), func(w *safe.Writer) { w.Println(name + " is at home, there is nothing to adopt") })
			}
			if dryRun {
				return a.done(effectWouldUpdate, ledgerJSON(info), func(w *safe.Writer) {
					w.Println("would adopt " + name + ": " + why + ". " + lost)
				})
			}
			if !yes {
				if !a.terminal() {
					return usage("without a terminal, adopt needs --yes", "first look: "+ask+" "+lost)
				}
				a.errOut.Println(name + ": " + why + ". " + lost)
				if !a.confirmYes(ask) {
					return &failure{Code: "no_person", Message: "nothing was changed"}
				}
			}
			a.close()
			at, err := a.place()
			if err != nil {
				return err
			}
			if err := at.Adopt(ctx, a.ledgerOptions()); err != nil {
				return err
			}
			if s, err = a.ledgerFor(ctx, toLook); err != nil {
				return err
			}
			if info, err = s.Info(ctx); err != nil {
				return err
			}
			return a.done(effectUpdated, ledgerJSON(info), func(w *safe.Writer) { w.Println(name + done + ". " + lost) })
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would happen and change nothing")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// lostSince says from when on a ledger that is adopted knows nothing.
func lostSince(info ledger.Info, now time.Time) string {
	from := "It is empty"
	if at := info.LastWrite; !at.IsZero() {
		from = "Its newest entry is of " + ticket.Ago(now.Sub(at)) + ", " + at.UTC().Format(time.RFC3339)
	}
	return from + ": what was sent since is not in it, and can be sent again"
}
