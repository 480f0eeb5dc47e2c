// Package prompt is the line at the bottom where a filter or a command is typed.
package prompt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// Kind is what is typed.
type Kind string

const (
	Filter  Kind = "/"
	Command Kind = ":"
	search  Kind = "?"
)

// Spec is one word of the command line.
type Spec struct {
	Name, Args, Words string
	Choices           []string // of its argument
}

// What a prompt asks for.
type (
	// Show shows a selection, while it is typed too.
	Show struct {
		ledger.Filter
		Kept bool // it was chosen, not only tried
		Back bool // the prompt was left, and its list was opened for it
	}
	// Seek shows what the help says of some words, while they are typed too.
	Seek struct{ Text string }
	// Run carries out a command; its name is whole, and its prompt opens again where
	// that fails.
	Run struct {
		Name, Arg string
		From      *Line
	}
)

// Line is an open prompt.
type Line struct {
	Over  bool // another screen: the list was opened for it
	kind  Kind
	input textinput.Model
	was   ledger.Filter // the filter to go back to, or the words of the help
	fault safe.Text
	specs []Spec
	known *Known
}

// New is a prompt that begins with the filter that is shown, or with no command.
func New(kind Kind, shown ledger.Filter, specs []Spec, known *Known) *Line {
	l := &Line{kind: kind, input: dialog.NewInput(), was: shown, specs: specs, known: known}
	if kind == Filter {
		if text := safe.Of(shown.Text).String(); text != "" {
			l.input.SetValue(text + " ") // what is typed is a term of its own
		}
		l.input.CursorEnd()
	}
	l.input.Focus()
	return l
}

func Find(shown string) *Line {
	l := New(search, ledger.Filter{Text: shown}, nil, nil)
	l.input.SetValue(shown)
	l.input.CursorEnd()
	return l
}

func (l *Line) Fail(err error) { l.fault = fault(err) }

// Press gives a key to the prompt: what it asks for, and whether that ends it.
func (l *Line) Press(msg tea.KeyPressMsg) (action dialog.Action, closes bool) {
	switch msg.String() {
	case "esc", "ctrl+c":
		return l.left(), true
	case "backspace":
		if l.input.Value() == "" {
			return l.left(), true
		}
	case "tab":
		if all := l.completions(); len(all) > 0 {
			l.complete(all)
			return l.typed(), false
		}
		return nil, false
	case "enter":
		return l.enter()
	}
	before := l.input.Value()
	dialog.Type(&l.input, msg)
	if l.input.Value() == before {
		return nil, false
	}
	return l.typed(), false
}

// left puts back what was shown before the prompt opened.
func (l *Line) left() dialog.Action {
	switch l.kind {
	case Filter:
		return Show{Filter: l.was, Back: l.Over}
	case search:
		return Seek{l.was.Text}
	}
	return nil
}

// Paste enters text. It never presses a key.
func (l *Line) Paste(text string) { dialog.Paste(&l.input, text) }

// typed shows a filter's effect, or its fault, while it is typed.
func (l *Line) typed() dialog.Action {
	l.fault = safe.Text{}
	switch l.kind {
	case search:
		return Seek{l.input.Value()}
	case Command:
		return nil
	}
	f, err := ledger.ParseFilter(strings.TrimSpace(l.input.Value()))
	if err != nil {
		l.fault = fault(err)
		return nil
	}
	return Show{Filter: f}
}

func (l *Line) enter() (dialog.Action, bool) {
	text := strings.TrimSpace(l.input.Value())
	if l.kind == Filter {
		f, err := ledger.ParseFilter(text)
		if err != nil {
			l.fault = fault(err)
			return nil, false
		}
		return Show{Filter: f, Kept: true}, true
	}
	if l.kind == search {
		return Seek{text}, true
	}
	if text == "" {
		return nil, true
	}
	name, arg, _ := strings.Cut(text, " ")
	name, err := l.whole(name)
	if err != nil {
		l.Fail(err)
		return nil, false
	}
	return Run{name, strings.TrimSpace(arg), l}, true
}

// whole is a command's name, which may be shortened while it is clear.
func (l *Line) whole(name string) (string, error) {
	var fits []string
	for _, c := range l.specs {
		if c.Name == name {
			return name, nil
		}
		if strings.HasPrefix(c.Name, name) {
			fits = append(fits, c.Name)
		}
	}
	switch len(fits) {
	case 0:
		return "", fmt.Errorf("no command %q; Tab lists them", name)
	case 1:
		return fits[0], nil
	}
	return "", fmt.Errorf("%q could be %s", name, strings.Join(fits, " or "))
}

// fault is a filter's error on one line: what is wrong, and where.
func fault(err error) safe.Text {
	var f *ledger.FilterError
	if !errors.As(err, &f) {
		return safe.Of(err.Error())
	}
	text := f.Message
	if near := f.Text[min(f.Offset, len(f.Text)):]; near != "" {
		text += " at " + near
	}
	return safe.Say("%s   %s", text, f.Hint)
}

// completions are what the word under the cursor could become.
func (l *Line) completions() []string {
	text := l.input.Value()
	word := text[strings.LastIndexByte(text, ' ')+1:]
	switch l.kind {
	case Filter:
		return fitting(l.filterWords(word), word)
	case search:
		return nil
	}
	name, arg, more := strings.Cut(text, " ")
	var all []string
	for _, c := range l.specs {
		switch {
		case !more:
			all = append(all, c.Name)
		case c.Name == name && c.Choices != nil:
			all, word = c.Choices, arg
		}
	}
	return fitting(all, word)
}

// filterWords are what a word of a filter could become, by the values that the list knows.
func (l *Line) filterWords(word string) []string {
	return ledger.CompleteFilter(word, func(field string) []string { return slices.Sorted(maps.Keys(l.known.values[field])) })
}

func fitting(all []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(c string) bool { return !strings.HasPrefix(c, word) || c == word })
}

// complete extends the word under the cursor as far as the candidates agree.
func (l *Line) complete(all []string) {
	common := all[0]
	for _, c := range all[1:] {
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	text := l.input.Value()
	start := strings.LastIndexByte(text, ' ') + 1
	if len(common) < len(text)-start {
		return
	}
	if len(all) == 1 && l.kind == Command && start == 0 {
		common += " "
	}
	l.input.SetValue(text[:start] + common)
	l.input.CursorEnd()
}

// Lines are the two lines at the bottom while text is typed.
func (l *Line) Lines(f *draw.Frame, w int) []string {
	hint := f.Faint.Render(draw.Cut(" "+safe.Join(safe.Each(l.completions()), "  ").String(), w))
	if !l.fault.Empty() {
		hint = f.Bad.Render(draw.Cut(" "+l.fault.String(), w))
	}
	line := dialog.Caret(&draw.Theme{}, []rune(l.input.Value()), l.input.Position(), max(w-3, 2))
	return []string{draw.Left(hint, w), draw.Left(f.Strong.Render(" "+string(l.kind))+strings.TrimRight(line, "_"), w)}
}

// Known is what a prompt offers: what the fields of a filter were seen to hold.
type Known struct{ values map[string]map[string]bool }

// Learned knows nothing yet.
func Learned() *Known { return &Known{values: map[string]map[string]bool{}} }

// Learn remembers the values of rows, to offer them for a filter: those that can be
// typed as they are shown.
func (k *Known) Learn(rows []feed.Row) {
	for i := range rows {
		r := &rows[i].Row
		for field, value := range map[string]string{"kind": r.Kind, "source": r.Source.Pipeline, "error": string(r.ErrorClass),
			"by": r.Actor, "downstream": r.Pricing.Downstream} {
			seen := k.values[field]
			if seen == nil {
				seen = map[string]bool{}
				k.values[field] = seen
			}
			if value != "" && len(seen) < 300 && safe.Of(value).String() == value {
				seen[value] = true
			}
		}
	}
}
