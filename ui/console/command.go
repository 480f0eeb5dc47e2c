package console

import (
	"errors"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/console/ask"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/console/prompt"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

func (m *Root) ask(kind prompt.Kind) tea.Cmd {
	if m.screen == onHelp && kind == prompt.Filter {
		m.prompt = prompt.Find(m.sought)
		return nil
	}
	over := kind == prompt.Filter && m.screen != onList
	if over { // what is typed is seen in the list
		m.trail = append(m.trail, here(m))
		m.goTo(onList)
		m.typed = true
	}
	m.prompt = prompt.New(kind, m.table.Filter, specs(), m.known)
	m.prompt.Over = over
	return nil
}

// command is one word of the command line.
type command struct {
	prompt.Spec
	do func(m *Root, arg string) (tea.Cmd, error)
}

func commands() []command {
	spec := func(name, args, words string, choices ...string) prompt.Spec {
		return prompt.Spec{Name: name, Args: args, Words: words, Choices: choices}
	}
	tab := func(t ledger.Tab) func(*Root, string) (tea.Cmd, error) {
		return func(m *Root, _ string) (tea.Cmd, error) { return m.goTab(t), nil }
	}
	key := func(name string) func(*Root, string) (tea.Cmd, error) {
		return func(m *Root, _ string) (tea.Cmd, error) { return m.pressBinding(name), nil }
	}
	return []command{
		{spec("all", "", "every operation"), tab(ledger.TabAll)},
		{spec("checking", "", "in doubt, with checks to come"), tab(ledger.TabChecking)},
		{spec("filter", "TEXT", "show only what matches; empty: all"), func(m *Root, arg string) (tea.Cmd, error) {
			f, err := ledger.ParseFilter(arg)
			if err != nil {
				return nil, err
			}
			return m.setFilter(f), nil
		}},
		{spec("flight", "", "attempts in flight"), tab(ledger.TabInFlight)},
		{spec("help", "", "every key"), func(m *Root, _ string) (tea.Cmd, error) { return help(m), nil }},
		{spec("hold", "", "stop every retry"), key(":hold")},
		{spec("needs", "", "what needs you"), tab(ledger.TabNeedsYou)},
		{spec("open", "ID", "one operation, by its id or the beginning of it"), func(m *Root, arg string) (tea.Cmd, error) {
			if arg == "" {
				return nil, errors.New("open which one? An id, or four letters of its beginning")
			}
			return find(m.ctx, m.feed.Store, arg, nil), nil
		}},
		{spec("parked", "", "what is out of the way until a time"), tab(ledger.TabParked)},
		{spec("policy", "", "which policy is in force, and what is wrong with the file"), func(m *Root, _ string) (tea.Cmd, error) {
			m.show(policyDialog(m.o.Policy(), m.o.PolicyProblem()))
			return nil, nil
		}},
		{spec("quit", "", "leave"), func(m *Root, _ string) (tea.Cmd, error) { return m.quit(), nil }},
		{spec("release", "", "let machines send again"), key(":release")},
		{spec("runs", "", "bulk runs: what goes on, has stopped, is finished"), func(m *Root, _ string) (tea.Cmd, error) {
			return m.question(feed.Patience, told(m, ask.ListRuns{})), nil
		}},
		{spec("settled", "", "what is settled, newest first"), tab(ledger.TabSettled)},
		{spec("sort", "loss|newest|oldest", "order of the list", "loss", "newest", "oldest"), func(m *Root, arg string) (tea.Cmd, error) {
			switch o := ledger.Order(arg); o {
			case ledger.OrderLoss, ledger.OrderNewest, ledger.OrderOldest:
				return m.setOrder(o), nil
			}
			return nil, fmt.Errorf("no order %q: there are loss, newest, oldest", arg)
		}},
		{spec("theme", "auto|light|dark|none", "colours", draw.Themes...), func(m *Root, arg string) (tea.Cmd, error) { return nil, m.setTheme(arg) }},
	}
}

func specs() []prompt.Spec {
	var out []prompt.Spec
	for _, c := range commands() {
		out = append(out, c.Spec)
	}
	return out
}

// command carries out one command. Where it cannot, the prompt says why.
func (m *Root) command(run prompt.Run) tea.Cmd {
	for _, c := range commands() {
		if c.Name != run.Name {
			continue
		}
		cmd, err := c.do(m, run.Arg)
		if err != nil {
			run.From.Fail(err)
			m.prompt = run.From
		}
		return cmd
	}
	return nil
}

// policyDialog says which policy is in force, and what is wrong with the file.
func policyDialog(p *policy.Policy, broken error) *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("Policy")}
	switch {
	case broken != nil && p.Empty():
		d.Warn("IN FORCE", "none: nothing is checked, costs are guesses")
	case p.Empty():
		d.Warn("FILE", "none: nothing is checked, costs are guesses. `indoubt policy init` writes one")
	default:
		d.Add("FILE", "%s", p.Path())
		d.Add("IN FORCE", "%s", draw.Cut(p.Digest(), 16))
	}
	if broken != nil {
		d.Warn("NOT TAKEN", "the file on disk is not what is worked by")
		for _, line := range strings.Split(broken.Error(), "\n") {
			d.Add("", "%s", safe.Exact(line))
		}
	}
	return d
}
