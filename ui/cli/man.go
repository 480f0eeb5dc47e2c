package cli

import (
	"fmt"

	mcobra "github.com/muesli/mango-cobra"
	"github.com/muesli/roff"
	"github.com/spf13/cobra"
)

func newManCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "man", GroupID: groupCare,
		Short:   "Print the manual page",
		Example: "  indoubt man | man -l -\n  indoubt man > /usr/local/share/man/man1/indoubt.1",
		Args:    noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := mcobra.NewManPage(1, cmd.Root())
			if err != nil {
				return fmt.Errorf("make the manual page: %w", err)
			}
			page = page.WithSection("Exit Codes", "0 done, or nothing was to do. 1 error. 2 usage. 3 not found. 4 conflict: it moved, or was decided already. "+
				"5 refused by policy, hold, read-only or for want of a person. 6 in doubt. 7 in progress. 8 key reused. 9 finished already.").
				WithSection("Environment", "INDOUBT_LEDGER, INDOUBT_POLICY, INDOUBT_ACTOR, INDOUBT_LEDGER_HOME, NO_COLOR.")
			_, err = fmt.Fprintln(a.out, page.Build(roff.NewDocument()))
			return err
		},
	}
}
