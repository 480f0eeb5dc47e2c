package console

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"indoubt/ledger"
	"indoubt/ui/safe"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

type promptKind string

const (
	promptFilter  promptKind = "/"
	promptCommand promptKind = ":"
)

// prompt is the line at the bottom where text is typed.
type prompt struct {
	kind  promptKind
	input textinput.Model
	was   ledger.Filter // the filter to go back to
	fault string
}

func (m *Root) ask(kind promptKind) tea.Cmd {
	p := &prompt{kind: kind, input: newInput(), was: m.filter}
	if kind == promptFilter {
		p.input.SetValue(safe.Of(m.filter.Text).String())
		p.input.CursorEnd()
	}
	p.input.Focus()
	m.prompt = p
	return nil
}

func (m *Root) pressPrompt(msg tea.KeyPressMsg) tea.Cmd {
	p := m.prompt
	switch msg.String() {
	case "esc", "ctrl+c":
		m.prompt = nil
		if p.kind == promptFilter && p.was.Text != m.filter.Text {
			return m.setFilter(p.was)
		}
		return nil
	case "backspace":
		if p.input.Value() == "" {
			m.prompt = nil
			return nil
		}
	case "tab":
		if c := m.completions(); len(c) > 0 {
			m.complete(c)
			return m.typedInto()
		}
		return nil
	case "enter":
		return m.enterPrompt()
	}
	if msg.Text != "" {
		msg.Text = safe.Of(msg.Text).String()
	}
	before := p.input.Value()
	p.input, _ = p.input.Update(msg)
	if p.input.Value() == before {
		return nil
	}
	return m.typedInto()
}

// typedInto shows a filter's effect, or its fault, while it is typed.
func (m *Root) typedInto() tea.Cmd {
	p := m.prompt
	p.fault = ""
	if p.kind != promptFilter {
		return nil
	}
	f, err := ledger.ParseFilter(p.input.Value())
	if err != nil {
		p.fault = filterFault(err)
		return nil
	}
	return m.setFilter(f)
}

func (m *Root) enterPrompt() tea.Cmd {
	p := m.prompt
	text := strings.TrimSpace(p.input.Value())
	if p.kind == promptFilter {
		f, err := ledger.ParseFilter(text)
		if err != nil {
			p.fault = filterFault(err)
			return nil
		}
		m.prompt = nil
		return m.setFilter(f)
	}
	if text == "" {
		m.prompt = nil
		return nil
	}
	cmd, err := m.command(text)
	if err != nil {
		p.fault = safe.Of(err.Error()).String()
		return nil
	}
	if m.prompt == p {
		m.prompt = nil
	}
	return cmd
}

// filterFault is a filter's error on one line: what is wrong, and where.
func filterFault(err error) string {
	var f *ledger.FilterError
	if !errors.As(err, &f) {
		return safe.Of(err.Error()).String()
	}
	near := f.Text[min(f.Offset, len(f.Text)):]
	text := f.Message
	if near != "" {
		text += " at " + near
	}
	return safe.Of(text).String() + "   " + safe.Of(f.Hint).String()
}

// setFilter shows another selection, from its top.
func (m *Root) setFilter(f ledger.Filter) tea.Cmd {
	if f.Text == m.filter.Text && m.list.read {
		return nil
	}
	m.filter = f
	m.restart()
	return m.reload()
}

// commandSpec is one word of the command line.
type commandSpec struct {
	name, args, words string
	choices           func(m *Root) []string
	do                func(m *Root, arg string) (tea.Cmd, error)
}

func commands() []commandSpec {
	tab := func(t ledger.Tab) func(*Root, string) (tea.Cmd, error) {
		return func(m *Root, _ string) (tea.Cmd, error) { return m.goTab(t), nil }
	}
	fixed := func(words ...string) func(*Root) []string { return func(*Root) []string { return words } }
	act := func(key string) func(*Root, string) (tea.Cmd, error) {
		return func(m *Root, _ string) (tea.Cmd, error) { m.prompt = nil; return m.pressBinding(key), nil }
	}
	return []commandSpec{
		{name: "all", words: "every operation", do: tab(ledger.TabAll)},
		{name: "checking", words: "in doubt, with checks to come", do: tab(ledger.TabChecking)},
		{name: "filter", args: "TEXT", words: "show only what matches; empty: all", do: func(m *Root, arg string) (tea.Cmd, error) {
			f, err := ledger.ParseFilter(arg)
			if err != nil {
				return nil, errors.New(filterFault(err))
			}
			return m.setFilter(f), nil
		}},
		{name: "flight", words: "attempts in flight", do: tab(ledger.TabInFlight)},
		{name: "help", words: "every key", do: func(m *Root, _ string) (tea.Cmd, error) { return m.help(), nil }},
		{name: "hold", words: "stop every send by machine", do: act("H")},
		{name: "needs", words: "what needs you", do: tab(ledger.TabNeedsYou)},
		{name: "open", args: "ID", words: "one operation, by its id or the beginning of it", do: func(m *Root, arg string) (tea.Cmd, error) {
			if arg == "" {
				return nil, errors.New("open which one? An id, or four letters of its beginning")
			}
			return m.find(arg), nil
		}},
		{name: "policy", words: "which policy is in force, and what is wrong with the file", do: func(m *Root, _ string) (tea.Cmd, error) { m.show(m.policyDialog()); return nil, nil }},
		{name: "quit", words: "leave", do: func(m *Root, _ string) (tea.Cmd, error) { return m.quit(), nil }},
		{name: "release", words: "let machines send again", do: act("H")},
		{name: "settled", words: "what is settled, newest first", do: tab(ledger.TabSettled)},
		{name: "sort", args: "loss|newest|oldest", words: "order of the list", choices: fixed("loss", "newest", "oldest"), do: func(m *Root, arg string) (tea.Cmd, error) {
			o := ledger.Order(arg)
			switch o {
			case ledger.OrderLoss, ledger.OrderNewest, ledger.OrderOldest:
				return m.setOrder(o), nil
			}
			return nil, fmt.Errorf("no order %q: there are loss, newest, oldest", arg)
		}},
		{name: "theme", args: "auto|light|dark|none", words: "colours", choices: fixed(themeNames...), do: func(m *Root, arg string) (tea.Cmd, error) { return nil, m.setTheme(arg) }},
	}
}

// command carries out one command line. A word may be shortened while it is clear.
func (m *Root) command(text string) (tea.Cmd, error) {
	name, arg, _ := strings.Cut(text, " ")
	var fits []commandSpec
	for _, c := range commands() {
		if c.name == name {
			fits = []commandSpec{c}
			break
		}
		if strings.HasPrefix(c.name, name) {
			fits = append(fits, c)
		}
	}
	switch len(fits) {
	case 0:
		return nil, fmt.Errorf("no command %q; Tab lists them", name)
	case 1:
		return fits[0].do(m, strings.TrimSpace(arg))
	}
	names := make([]string, len(fits))
	for i := range fits {
		names[i] = fits[i].name
	}
	return nil, fmt.Errorf("%q could be %s", name, strings.Join(names, " or "))
}

// completions are what the word under the cursor could become.
func (m *Root) completions() []string {
	p := m.prompt
	text := p.input.Value()
	var all []string
	word := text[strings.LastIndexByte(text, ' ')+1:]
	if p.kind == promptCommand {
		name, arg, more := strings.Cut(text, " ")
		for _, c := range commands() {
			if !more {
				all = append(all, c.name)
			} else if c.name == name && c.choices != nil {
				all = c.choices(m)
				word = arg
			} else if c.name == name && name == "filter" {
				return fitting(m.filterWords(word), word)
			}
		}
		return fitting(all, word)
	}
	return fitting(m.filterWords(word), word)
}

// filterWords are the fields of a filter and, after a field, values that the
// list knows.
func (m *Root) filterWords(word string) []string {
	sign := ""
	if strings.HasPrefix(word, "-") {
		sign, word = "-", word[1:]
	}
	field, _, ok := strings.Cut(word, ":")
	var out []string
	if !ok {
		for _, f := range ledger.FilterFields {
			switch f {
			case "age", "cost", "risk":
				out = append(out, sign+f+">", sign+f+"<")
			default:
				out = append(out, sign+f+":")
			}
		}
		return out
	}
	seen := map[string]bool{}
	add := func(v string) {
		if v != "" && !seen[v] && !strings.Contains(v, " ") {
			seen[v] = true
			out = append(out, sign+field+":"+v)
		}
	}
	switch field {
	case "state":
		for _, s := range []ledger.State{ledger.Pending, ledger.Committed, ledger.Failed, ledger.Uncertain, ledger.Abandoned} {
			add(string(s))
		}
		return out
	case "lane":
		for _, l := range []ledger.Lane{ledger.LaneConflict, ledger.LaneDecide, ledger.LaneInFlight, ledger.LaneNotLanded, ledger.LaneReading, ledger.LaneResolved, ledger.LaneUnfetched} {
			add(string(l))
		}
		return out
	}
	if field == "parked" {
		add("yes")
		add("no")
		return out
	}
	for v := range m.values[field] {
		add(v)
	}
	sort.Strings(out)
	return out
}

func fitting(all []string, word string) []string {
	var out []string
	for _, c := range all {
		if strings.HasPrefix(c, word) && c != word {
			out = append(out, c)
		}
	}
	return out
}

// complete extends the word under the cursor as far as the candidates agree.
func (m *Root) complete(all []string) {
	p := m.prompt
	common := all[0]
	for _, c := range all[1:] {
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	text := p.input.Value()
	start := strings.LastIndexByte(text, ' ') + 1
	if len(common) < len(text)-start {
		return
	}
	if len(all) == 1 && p.kind == promptCommand && start == 0 {
		common += " "
	}
	p.input.SetValue(text[:start] + common)
	p.input.CursorEnd()
}

// promptLines are the two lines at the bottom while text is typed.
func (m *Root) promptLines(w int) []string {
	p := m.prompt
	hint := m.th.faint.s(cut(" "+strings.Join(m.completions(), "  "), w))
	if p.fault != "" {
		hint = m.th.bad.s(cut(" "+p.fault, w))
	}
	line := caret(&theme{}, []rune(p.input.Value()), p.input.Position(), max(w-3, 2))
	return []string{fit(hint, w), fit(m.th.strong.s(" "+string(p.kind))+strings.TrimRight(line, "_"), w)}
}

// learn remembers values of fields, to offer them for a filter.
func (m *Root) learn(rows []shown) {
	for i := range rows {
		r := &rows[i].row
		for field, v := range map[string]string{"kind": r.Kind, "source": r.Source.Pipeline, "error": string(r.ErrorClass), "by": r.Actor, "downstream": r.Pricing.Downstream} {
			seen := m.values[field]
			if seen == nil {
				seen = map[string]bool{}
				m.values[field] = seen
			}
			if v != "" && len(seen) < 300 {
				seen[v] = true
			}
		}
	}
}
