package care

import (
	"context"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

// pruner is a store whose history can be moved to files.
type pruner interface {
	Prune(context.Context, ledger.Prune) (ledger.Pruned, error)
}

// NewPrune is `indoubt prune`.
func NewPrune(a *base.App) *cobra.Command {
	var before string
	var p ledger.Prune
	cmd := &cobra.Command{
		Use: "prune", GroupID: base.GroupCare,
		Short: "Move the history of what is settled to a file",
		Long: `Move the history of operations that were settled before a time to a file in a directory:
what was asked, answered and done, an operation a line, as JSON (zcat reads it). The file is
read back before anything leaves the ledger. A kill loses nothing: give the same command again.

The operations stay, with their keys, states and receipts: who asks again is answered as
before, with the receipt and the file's name, and without the stored answer. A late answer
is still recorded. Nothing of it can be undone.

Not moved is what is open, abandoned or in conflict, whose answer its caller has not had,
whose key has a time that is not over, and what was sent more than once. The room is used
again by what comes; the ledger's file does not shrink. While others write it takes longer,
for they come first.`,
		Example: "  indoubt prune --before 90d --to /archive --dry-run\n  indoubt prune --before 90d --to /archive",
		Args:    base.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if p.Before, err = base.Past("before", before, a.Clock()); err != nil {
				return err
			}
			if p.To == "" {
				return base.Usage("prune needs --to", "name the directory that the file goes to")
			}
			if err := a.MayChange("prune"); err != nil && !p.DryRun {
				return err
			}
			s, err := a.LedgerFor(cmd.Context(), base.ToChange.Unless(p.DryRun))
			if err != nil {
				return err
			}
			p.Actor = a.Actor()
			done, err := s.(pruner).Prune(cmd.Context(), p)
			if err != nil {
				return err
			}
			n := ledger.Count(done.Operations)
			effect, said := base.EffectUpdated, safe.Say("the history of %s operations is in %s", n, base.Short(done.File))
			switch {
			case p.DryRun:
				effect, said = base.EffectWouldUpdate, safe.Say("the history of %s operations would be moved", n)
			case done.File == "":
				effect, said = base.EffectNoop, safe.Say("nothing to move")
			}
			return a.Done(effect, done, func(w *safe.Writer) { w.Println(said) })
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "what was settled before: "+ledger.WhenHelp)
	cmd.Flags().StringVar(&p.To, "to", "", "the directory for the file")
	cmd.Flags().BoolVar(&p.DryRun, "dry-run", false, "count what would be moved, and change nothing")
	return cmd
}
