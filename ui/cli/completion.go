package cli

import (
	"cmp"
	"fmt"
	"io"
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

// completion offers the words that a command line may go on with.
type completion struct{ *app }

type completing = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeLimit bounds what a press of Tab may read.
const completeLimit = 50

// offerable are the words that a shell takes as they stand. Names come from any
// recorder: one with a line feed is two offers, one with $(…) in it may be run by
// the shell that it is offered to.
var offerable = lazyregexp.New(`^[\pL\pN_.:@/][\pL\pN_.:@/+,%=-]*$`)

// completeIDs offers the ids of operations that a command can act on, with
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

// offer are those of some names that begin with what is typed, each once.
func offer(names []string, toComplete string) []string {
	seen := map[string]bool{}
	var out []string
	for _, name := range names {
		if !seen[name] && strings.HasPrefix(name, toComplete) && offerable.MatchString(name) {
			out = append(out, name)
		}
		seen[name] = true
	}
	return out
}

// kinds offers the kinds that the policy and the ledger know.
func (c completion) kinds(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return offer(c.kindsKnown(cmd), toComplete), cobra.ShellCompDirectiveNoFileComp
}

// incidents offers incidents for a first argument, and operations after it.
func (c completion) incidents(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return c.ids(nil, false)(cmd, args, toComplete)
	}
	var out []string
	if c.prepare(cmd) == nil {
		if s, err := c.ledgerFor(cmd.Context(), toLook); err == nil {
			all, _ := s.Incidents(cmd.Context(), c.clock(), completeLimit) // completion is silent about what goes wrong
			for _, in := range all {
				if offerable.MatchString(in.ID) && strings.HasPrefix(in.ID, toComplete) {
					out = append(out, in.ID+"\t"+safe.Of(cmp.Or(in.Name, in.Where())).String())
				}
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (c completion) kindsKnown(cmd *cobra.Command) []string {
	if c.prepare(cmd) != nil {
		return nil
	}
	var names []string
	if p, err := c.policy(); err == nil {
		names = p.Kinds()
	}
	for _, row := range c.rowsToComplete(cmd) {
		names = append(names, row.Kind)
	}
	return names
}

func (c completion) downstreams(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return offer(c.downstreamsKnown(cmd), toComplete), cobra.ShellCompDirectiveNoFileComp
}

func (c completion) downstreamsKnown(cmd *cobra.Command) []string {
	if c.prepare(cmd) != nil {
		return nil
	}
	p, err := c.policy()
	if err != nil {
		return nil
	}
	return p.Downstreams()
}

func (c completion) sourcesKnown(cmd *cobra.Command) []string {
	var names []string
	for _, row := range c.rowsToComplete(cmd) {
		names = append(names, row.Source.Pipeline)
	}
	return names
}

// filterValues are the values that a field of a filter may have, where they can be told.
func (c completion) filterValues(cmd *cobra.Command, field string) []string {
	switch field {
	case "state":
		return []string{"pending", "committed", "failed", "uncertain", "abandoned"}
	case "lane":
		return []string{"conflict", "in_flight", "unfetched", "decide", "reading", "not_landed", "resolved"}
	case "group":
		var names []string
		for _, g := range ledger.Groups {
			names = append(names, string(g))
		}
		return names
	case "parked":
		return []string{"yes", "no"}
	case "error":
		return []string{"timeout", "reset", "eof", "5xx", "conflict", "throttled", "killed", "exit", "tool_error", "deadline"}
	case "kind":
		return c.kindsKnown(cmd)
	case "downstream":
		return c.downstreamsKnown(cmd)
	case "source":
		return c.sourcesKnown(cmd)
	}
	return nil
}

// filter offers filter fields, then their values, and ids.
func (c completion) filter(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	term, negated := strings.CutPrefix(toComplete, "-")
	not := toComplete[:len(toComplete)-len(term)]
	var out []string
	if field, begun, valued := strings.Cut(term, ":"); valued {
		before := begun[:strings.LastIndex(begun, ",")+1]
		for _, value := range offer(c.filterValues(cmd, field), begun[len(before):]) {
			out = append(out, not+field+":"+before+value)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	for _, field := range ledger.FilterFields {
		sign := ":"
		if field == "age" || field == "cost" || field == "risk" {
			sign = ">"
		}
		if strings.HasPrefix(field+sign, term) {
			out = append(out, not+field+sign)
		}
	}
	if len(args) == 0 && !negated && len(term) >= 4 {
		ids, _ := c.ids(nil, false)(cmd, args, toComplete)
		return append(out, ids...), cobra.ShellCompDirectiveNoFileComp
	}
	return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
