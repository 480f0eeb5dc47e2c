package console

import (
	"strings"

	"indoubt/ui/safe"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// field is one thing a dialog asks for: a text, or one of a few choices.
type field struct {
	label   string
	input   textinput.Model
	typed   bool // must be typed: a paste would skip the reading
	choices []string
	at      int
}

// textField begins with a value, unless that does not print: written out it would
// be another text, which the decision would then hold.
func textField(label, value string) *field {
	f := &field{label: label, input: newInput()}
	if safe.Of(value).String() == value {
		f.input.SetValue(value)
	}
	return f
}

// typedField must be typed by hand, letter by letter.
func typedField(label string) *field {
	f := textField(label, "")
	f.typed = true
	return f
}

func choiceField(label string, choices ...string) *field {
	return &field{label: label, choices: choices, input: newInput()}
}

// newInput is a one-line editor that reads no clipboard by itself and does not
// blink: nothing on this screen moves without a cause.
func newInput() textinput.Model {
	in := textinput.New()
	in.Prompt = ""
	in.KeyMap.Paste = key.NewBinding()
	styles := textinput.Styles{}
	styles.Cursor.Blink = false
	in.SetStyles(styles)
	return in
}

// value is what was entered or chosen.
func (f *field) value() string {
	if f.choices != nil {
		return f.choices[f.at]
	}
	return strings.TrimSpace(f.input.Value())
}

func (f *field) press(msg tea.KeyPressMsg) {
	if f.choices != nil {
		switch msg.String() {
		case "left":
			f.at = (f.at + len(f.choices) - 1) % len(f.choices)
		case "right", "space":
			f.at = (f.at + 1) % len(f.choices)
		}
		return
	}
	if msg.Text != "" {
		msg.Text = safe.Of(msg.Text).String()
	}
	f.input, _ = f.input.Update(msg)
}

// paste enters pasted text as one line; it never presses anything.
func (f *field) paste(text string) (refused bool) {
	if f.typed {
		return true
	}
	if f.choices != nil {
		return false
	}
	text = safe.Of(strings.Join(strings.Fields(text), " ")).String()
	value, at := []rune(f.input.Value()), f.input.Position()
	f.input.SetValue(string(value[:at]) + text + string(value[at:]))
	f.input.SetCursor(at + len([]rune(text)))
	return false
}

// line draws the field in w cells.
func (f *field) line(th *theme, w int, focused bool) string {
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
		text := cut(strings.Join(parts, "  "), w)
		if focused {
			return th.strong.s(text)
		}
		return text
	}
	if focused {
		f.input.Focus()
		return caret(th, []rune(f.input.Value()), f.input.Position(), w)
	}
	f.input.Blur()
	text := cut(f.input.Value(), w)
	return text + th.faint.s(strings.Repeat("_", max(w-width(text), 0)))
}

// caret draws a line of text with its cursor, scrolled so that the cursor shows.
func caret(th *theme, text []rune, at, w int) string {
	if w < 2 {
		return spaces(w)
	}
	at = min(max(at, 0), len(text))
	from := max(0, at-w+1)
	before, under, after := string(text[from:at]), "_", ""
	if at < len(text) {
		under, after = string(text[at]), string(text[at+1:])
	}
	for width(before)+width(under) > w && from < at {
		from++
		before = string(text[from:at])
	}
	after = cut(after, w-width(before)-width(under))
	rest := max(w-width(before)-width(under)-width(after), 0)
	return before + "\x1b[7m" + under + "\x1b[27m" + after + th.faint.s(strings.Repeat("_", rest))
}
