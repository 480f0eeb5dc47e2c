package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/ui/safe"
)

func newCompletionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", GroupID: groupCare,
		Short:   "Print completion for a shell: commands, ids and filters",
		Long:    "Print completion for a shell: commands, ids and filters. bash needs the package\nbash-completion; zsh needs compinit to have run.",
		Example: "  source <(indoubt completion bash)\n  indoubt completion fish > ~/.config/fish/completions/indoubt.fish",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("completion needs one of "+strings.Join(shells, ", "), "")
			}
			return nil
		},
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			write := map[string]func(io.Writer) error{
				"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
				"zsh":        root.GenZshCompletion,
				"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
				"powershell": root.GenPowerShellCompletionWithDesc,
			}[args[0]]
			if write == nil {
				return usage(fmt.Sprintf("there is no completion for %q", args[0]), "there is: "+strings.Join(shells, " "))
			}
			return write(a.out)
		},
	}
}

// completion offers the words that a command line may go on with.
type completion struct{ *app }

type completing = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeLimit bounds what a press of Tab may read.
const completeLimit = 50

// offerable are the words that a shell takes as they stand. Names come from any
// recorder: one with a line feed is two offers, one with $(…) in it may be run by
// the shell that it is offered to.
var offerable = lazyregexp.New(`^[\pL\pN_.:@/][\pL\pN_.:@/+,%=-]*$`)

// ids offers the ids of operations that a command can act on, with
// their titles; where a version is needed, it comes with the id.
func (c completion) ids(from func(ledger.Row) bool, withVersion bool) completing {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, row := range c.rowsToComplete(cmd) {
			if !offerable.MatchString(row.ID) || from != nil && !from(row) {
				continue
			}
			if !strings.HasPrefix(strings.ToLower(row.ID), strings.ToLower(toComplete)) && !strings.HasPrefix(fmt.Sprintf("%s@%d", row.ID, row.Version), toComplete) {
				continue
			}
			if strings.Contains(strings.Join(args, " "), row.ID) {
				continue
			}
			offer := row.ID
			if withVersion {
				offer = fmt.Sprintf("%s@%d", row.ID, row.Version)
			}
			out = append(out, offer+"\t"+safe.Of(string(row.State)+", "+cmp.Or(row.Title, row.Kind)).String())
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// rowsToComplete are the operations worth offering: what is open, then the
// newest of the rest. Completion is silent about what goes wrong.
func (c completion) rowsToComplete(cmd *cobra.Command) []ledger.Row {
	if c.prepare(cmd) != nil {
		return nil
	}
	ctx := cmd.Context()
	s, err := c.ledgerFor(ctx, toLook)
	if err != nil {
		return nil
	}
	var rows []ledger.Row
	for _, tab := range append(append([]ledger.Tab{}, openTabs...), ledger.TabSettled) {
		page, err := s.Page(ctx, ledger.Query{Tab: tab, Now: c.clock(), Limit: completeLimit})
		if err != nil {
			return rows
		}
		rows = append(rows, page.Rows...)
	}
	return rows
}

// known are the names that a field of a filter has among the operations that a press of Tab reads.
func (c completion) known(cmd *cobra.Command, field string) (names []string) {
	for _, row := range c.rowsToComplete(cmd) {
		names = append(names, map[string]string{"kind": row.Kind, "source": row.Source.Pipeline, "key": row.Key, "token": row.Token,
			"receipt": row.Receipt(), "id": row.ID, "by": ledger.Signer(row.Actor), "outage": row.Outage()}[field])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// filter offers filter fields, then their values, and ids.
func (c completion) filter(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if c.prepare(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	last := toComplete[strings.LastIndexByte(toComplete, ' ')+1:]
	var out []string
	for _, word := range ledger.CompleteFilter(last, func(field string) []string { return c.known(cmd, field) }) {
		if offerable.MatchString(strings.TrimRight(strings.TrimLeft(word, "-("), "<>")) {
			out = append(out, strings.TrimSuffix(toComplete, last)+word)
		}
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	if slices.ContainsFunc(out, func(word string) bool { return strings.HasSuffix(word, ":") }) { // a value follows
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	if strings.ContainsAny(last, ":<>") {
		return out, directive
	}
	if len(args) == 0 && len(toComplete) >= 4 {
		ids, _ := c.ids(nil, false)(cmd, args, toComplete)
		out = append(out, ids...)
	}
	return out, directive
}
