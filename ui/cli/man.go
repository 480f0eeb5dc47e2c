package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/muesli/mango"
	mcobra "github.com/muesli/mango-cobra"
	"github.com/muesli/roff"
	"github.com/spf13/cobra"
)

func newManCommand(a *app) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "man [COMMAND…]", GroupID: groupCare,
		Short:             "Print the manual page, or that of a command",
		Example:           "  indoubt man | man -l -\n  indoubt man run > /usr/local/share/man/man1/indoubt-run.1\n  indoubt man --to ~/.local/share/man/man1",
		ValidArgsFunction: completeCommands,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := commandOf(cmd.Root(), args)
			if err != nil {
				return err
			}
			if to != "" {
				return manuals(of, to)
			}
			page, err := manual(of)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, page)
			return err
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "write the page, and one for each command below, into this directory")
	return cmd
}

// manuals writes the page of a command, and those of the commands below it, into a directory.
func manuals(of *cobra.Command, dir string) error {
	if of.Hidden {
		return nil
	}
	page, err := manual(of)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(of.CommandPath(), " ", "-")+".1"), []byte(page+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the manual page: %w", err)
	}
	for _, sub := range of.Commands() {
		if err := manuals(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// manual is the page of a command, with what every page says.
func manual(of *cobra.Command) (string, error) {
	page := mango.NewManPage(1, "", of.Short).WithLongDescription(flowing(of.Long))
	if err := mcobra.AddCommand(page, of); err != nil {
		return "", fmt.Errorf("make the manual page: %w", err)
	}
	page.Root.Name, page.Root.Short = strings.ReplaceAll(of.CommandPath(), " ", "-"), of.Short
	page = page.WithSection("Exit Codes", strings.Join(exitCodes(of), "\n")).
		WithSection("Environment", "INDOUBT_LEDGER, INDOUBT_POLICY, INDOUBT_CONTEXT, INDOUBT_ACTOR, INDOUBT_LEDGER_HOME, INDOUBT_DIGEST_KEY_FILE, INDOUBT_PAGER, PAGER, NO_COLOR.").
		WithSection("Files", "$XDG_STATE_HOME/indoubt/ledger.db, the ledger; $XDG_CONFIG_HOME/indoubt/policy.yaml, the policy; $XDG_CONFIG_HOME/indoubt/config.yaml, how the console looks, and contexts.").
		WithSection("See Also", "indoubt(1), indoubt-run(1), indoubt-list(1): printed by `indoubt man COMMAND`.")
	return page.Build(roff.NewDocument()), nil
}

// flowing joins the lines of a paragraph: the page breaks them anew.
func flowing(text string) string {
	var out strings.Builder
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		out.WriteString(line)
		if i+1 < len(lines) && line != "" && lines[i+1] != "" && lines[i+1][0] != ' ' && line[0] != ' ' {
			out.WriteString(" ")
		} else {
			out.WriteString("\n")
		}
	}
	return out.String()
}
