package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

func newCompletionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", GroupID: groupCare,
		Short:   "Print completion for a shell: commands, ids, kinds and filters",
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

type completing = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeLimit bounds what a press of Tab may read.
const completeLimit = 50

// completeIDs offers the ids of operations that a command can act on, with
// their titles; where a version is needed, it comes with the id.
func (a *app) completeIDs(from func(ledger.Row) bool, withVersion bool) completing {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, row := range a.rowsToComplete(cmd) {
			if from != nil && !from(row) || !strings.HasPrefix(strings.ToLower(row.ID), strings.ToLower(toComplete)) && !strings.HasPrefix(fmt.Sprintf("%s@%d", row.ID, row.Version), toComplete) {
				continue
			}
			if strings.Contains(strings.Join(args, " "), row.ID) {
				continue
			}
			offer := row.ID
			if withVersion {
				offer = fmt.Sprintf("%s@%d", row.ID, row.Version)
			}
			title := row.Title
			if title == "" {
				title = row.Kind
			}
			out = append(out, offer+"\t"+safe.Text(string(row.State)+", "+title))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// rowsToComplete are the operations worth offering: what is open, then the
// newest of the rest. Completion is silent about what goes wrong.
func (a *app) rowsToComplete(cmd *cobra.Command) []ledger.Row {
	if a.prepare(cmd) != nil {
		return nil
	}
	ctx := cmd.Context()
	s, err := a.ledgerFor(ctx, toLook)
	if err != nil {
		return nil
	}
	var rows []ledger.Row
	for _, tab := range append(append([]ledger.Tab{}, openTabs...), ledger.TabSettled) {
		page, err := s.Page(ctx, ledger.Query{Tab: tab, Now: a.clock(), Limit: completeLimit})
		if err != nil {
			return rows
		}
		rows = append(rows, page.Rows...)
	}
	return rows
}

// completeKinds offers the kinds that the policy and the ledger know.
func (a *app) completeKinds(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || a.prepare(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, name := range a.kindsKnown(cmd) {
		if strings.HasPrefix(name, toComplete) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) kindsKnown(cmd *cobra.Command) []string {
	var names []string
	if p, err := a.policy(); err == nil {
		names = p.Kinds()
	}
	for _, row := range a.rowsToComplete(cmd) {
		names = append(names, row.Kind)
	}
	seen := map[string]bool{}
	var out []string
	for _, n := range names {
		if !seen[n] && safe.Text(n) == n && !strings.ContainsAny(n, "\t ") {
			out = append(out, n)
		}
		seen[n] = true
	}
	return out
}

func (a *app) completeDownstreams(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if a.prepare(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	p, err := a.policy()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, name := range p.Downstreams() {
		if strings.HasPrefix(name, toComplete) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeFilter offers filter fields, then their values, and ids.
func (a *app) completeFilter(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	not := ""
	term := toComplete
	if strings.HasPrefix(term, "-") {
		not, term = "-", term[1:]
	}
	var out []string
	offer := func(field string, values ...string) {
		for _, v := range values {
			if strings.HasPrefix(field+v, term) {
				out = append(out, not+field+v)
			}
		}
	}
	field, _, valued := strings.Cut(term, ":")
	if !valued {
		for _, f := range ledger.FilterFields {
			sign := ":"
			if f == "age" || f == "cost" || f == "risk" {
				sign = ">"
			}
			offer(f, sign)
		}
		if len(args) == 0 && not == "" && len(term) >= 4 {
			ids, _ := a.completeIDs(nil, false)(cmd, args, toComplete)
			return append(out, ids...), cobra.ShellCompDirectiveNoFileComp
		}
		return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	switch field {
	case "state":
		offer("state:", "pending", "committed", "failed", "uncertain", "abandoned")
	case "lane":
		offer("lane:", "conflict", "in_flight", "unfetched", "decide", "reading", "not_landed", "resolved")
	case "error":
		offer("error:", "timeout", "reset", "eof", "5xx", "conflict", "throttled", "killed", "exit", "tool_error", "deadline")
	case "kind":
		if a.prepare(cmd) == nil {
			offer("kind:", a.kindsKnown(cmd)...)
		}
	case "downstream":
		if names, _ := a.completeDownstreams(cmd, nil, ""); names != nil {
			offer("downstream:", names...)
		}
	case "source":
		for _, row := range a.rowsToComplete(cmd) {
			if v := "source:" + row.Source.Pipeline; row.Source.Pipeline != "" && safe.Text(v) == v && strings.HasPrefix(v, term) && !slices.Contains(out, not+v) {
				out = append(out, not+v)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
