package dialog

import (
	"strings"

	"indoubt/ui/console/draw"
	"indoubt/ui/safe"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// Field is one thing a dialog asks for: a text, or one of a few choices.
type Field struct {
	Label   string
	input   textinput.Model
	was     string      // what it began with
	filled  bool        // and needs no more: the next one is asked for first
	whole   bool        // and is selected: what is typed takes its place
	typed   bool        // must be typed: a paste would skip the reading
	must    func() bool // be filled; nil: it may stay empty
	choices []string
	at      int
}

// TextField begins with a value, unless that does not print: written out it would
// be another text, which the decision would then hold.
func TextField(label, value string) *Field {
	f := &Field{Label: label, input: NewInput()}
	if safe.Of(value).String() == value {
		f.input.SetValue(value)
		f.was = f.Value()
		f.whole = f.was != ""
	}
	return f
}

// FilledField is a text that is known already, and can be changed.
func FilledField(label, value string) *Field {
	f := TextField(label, value)
	f.filled = f.was != ""
	return f
}

// TypedField must be typed by hand, letter by letter.
func TypedField(label string) *Field {
	f := TextField(label, "")
	f.typed = true
	return f
}

// ChoiceField asks for one of a few.
func ChoiceField(label string, choices ...string) *Field {
	return &Field{Label: label, choices: choices, input: NewInput()}
}

// Must says that the field has to be filled, and MustWhere when it has to be.
func (f *Field) Must() *Field { f.MustWhere(func() bool { return true }); return f }

func (f *Field) MustWhere(must func() bool) { f.must = must }

// NewInput is a one-line editor that reads no clipboard by itself and does not
// blink: nothing on this screen moves without a cause.
func NewInput() textinput.Model {
	in := textinput.New()
	in.Prompt = ""
	in.KeyMap.Paste = key.NewBinding()
	styles := textinput.Styles{}
	styles.Cursor.Blink = false
	in.SetStyles(styles)
	return in
}

func (f *Field) Value() string {
	if f.choices != nil {
		return f.choices[f.at]
	}
	return strings.TrimSpace(f.input.Value())
}

func (f *Field) press(msg tea.KeyPressMsg) {
	if f.choices != nil {
		switch msg.String() {
		case "left":
			f.at = (f.at + len(f.choices) - 1) % len(f.choices)
		case "right", "space":
			f.at = (f.at + 1) % len(f.choices)
		}
		return
	}
	f.touch(msg.Text != "")
	Type(&f.input, msg)
}

// touch ends the selection of what the field began with: a text takes its place.
func (f *Field) touch(text bool) {
	if f.whole && text {
		f.input.Reset()
	}
	f.whole = false
}

// Type enters a key, made safe to show.
func Type(in *textinput.Model, msg tea.KeyPressMsg) {
	if msg.Text != "" {
		msg.Text = safe.Of(msg.Text).String()
	}
	*in, _ = in.Update(msg)
}

// paste enters pasted text as one line; it never presses anything.
func (f *Field) paste(text string) (refused bool) {
	if f.typed {
		return true
	}
	if f.choices != nil {
		return false
	}
	f.touch(true)
	Paste(&f.input, text)
	return false
}

// Paste enters pasted text at the cursor as one line, made safe to show.
func Paste(in *textinput.Model, text string) {
	text = safe.Of(strings.Join(strings.Fields(text), " ")).String()
	value, at := []rune(in.Value()), in.Position()
	in.SetValue(string(value[:at]) + text + string(value[at:]))
	in.SetCursor(at + len([]rune(text)))
}

func (f *Field) line(th *draw.Theme, w int, focused bool) (drawn string) {
	if f.choices != nil {
		var parts []string
		for i, c := range f.choices {
			if i == f.at {
				c = "(•) " + c
			} else {
				c = "( ) " + c
			}
			parts = append(parts, c)
		}
		text := draw.Cut(strings.Join(parts, "  "), w)
		if focused {
			return th.Strong.Render(text)
		}
		return text
	}
	if missing := " needed"; f.must != nil && f.Value() == "" && w > 2*len(missing) && f.must() {
		w -= len(missing)
		defer func() { drawn += th.Warn.Render(missing) }()
	}
	if focused {
		f.input.Focus()
		if text := f.input.Value(); f.whole && draw.Width(text) < w {
			return "\x1b[7m" + text + "\x1b[27m" + th.Faint.Render(strings.Repeat("_", w-draw.Width(text)))
		}
		return Caret(th, []rune(f.input.Value()), f.input.Position(), w)
	}
	f.input.Blur()
	text := draw.Cut(f.input.Value(), w)
	return text + th.Faint.Render(strings.Repeat("_", max(w-draw.Width(text), 0)))
}

// Caret draws a line of text with its cursor, scrolled so that the cursor shows.
func Caret(th *draw.Theme, text []rune, at, w int) string {
	if w < 2 {
		return draw.Spaces(w)
	}
	at = min(max(at, 0), len(text))
	from := max(0, at-w+1)
	before, under, after := string(text[from:at]), "_", ""
	if at < len(text) {
		under, after = string(text[at]), string(text[at+1:])
	}
	for draw.Width(before)+draw.Width(under) > w && from < at {
		from++
		before = string(text[from:at])
	}
	after = draw.Cut(after, w-draw.Width(before)-draw.Width(under))
	rest := max(w-draw.Width(before)-draw.Width(under)-draw.Width(after), 0)
	return before + "\x1b[7m" + under + "\x1b[27m" + after + th.Faint.Render(strings.Repeat("_", rest))
}
