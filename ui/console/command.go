package console

import (
	"errors"
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
	m.prompt = prompt.New(kind, m.table.Filter, ledger.Each(commands(), func(c command) prompt.Spec { return c.Spec }), m.known)
	m.prompt.Over = over
	return nil
}

// command is one word of the command line.
type command struct {
	prompt.Spec
	do func(m *Root, arg string) (tea.Cmd, error)
}

func commands() []command {
	key := func(name string) func(*Root, string) (tea.Cmd, error) {
		return func(m *Root, _ string) (tea.Cmd, error) { return m.pressBinding(name), nil }
	}
	return []command{
		{prompt.Spec{Name: "hold", Words: "stop every retry"}, key(":hold")},
		{prompt.Spec{Name: "open", Args: "ID", Words: "one operation, by its id or the beginning of it"}, func(m *Root, arg string) (tea.Cmd, error) {
			if arg == "" {
				return nil, errors.New("open which one? An id, or four letters of its beginning")
			}
			return find(m.ctx, m.feed.Store, arg, nil), nil
		}},
		{prompt.Spec{Name: "policy", Words: "which policy is in force, and what is wrong with the file"},
			func(m *Root, _ string) (tea.Cmd, error) {
				m.show(policyDialog(m.o.Policy(), m.o.PolicyProblem()))
				return nil, nil
			}},
		{prompt.Spec{Name: "quit", Words: "leave"}, key("q")},
		{prompt.Spec{Name: "release", Words: "let machines send again"}, key(":release")},
		{prompt.Spec{Name: "runs", Words: "bulk runs: what goes on, has stopped, is finished"}, func(m *Root, _ string) (tea.Cmd, error) {
			return m.question(feed.Patience, told(m, ask.ListRuns{})), nil
		}},
		{prompt.Spec{Name: "theme", Args: "auto|light|dark|none", Words: "colours", Choices: draw.Themes},
			func(m *Root, arg string) (tea.Cmd, error) { return nil, m.setTheme(arg) }},
	}
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
