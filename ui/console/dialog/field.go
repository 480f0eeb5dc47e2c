package dialog

import (
	"strings"

	"indoubt/ui/console/draw"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// Field is one thing a dialog asks for: a text, or one of a few choices.
type Field struct {
	Label   string
	input   Input
	was     string // what it began with
	filled  bool   // and needs no more: the next one is asked for first
	typed   bool   // must be typed: a paste would skip the reading
	choices []string
	at      int
}

// TextField begins with a value, unless that does not print: written out it would
// be another text, which the decision would then hold.
func TextField(label, value string) *Field {
	f := &Field{Label: label}
	if safe.Of(value).String() == value {
		f.input.Set(value)
		f.was = f.Value()
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
	return &Field{Label: label, choices: choices}
}

// Value is what was entered or chosen.
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
	f.input.Press(msg)
}

// paste enters pasted text as one line; it never presses anything.
func (f *Field) paste(text string) (refused bool) {
	if f.typed {
		return true
	}
	if f.choices != nil {
		return false
	}
	f.input.Paste(text)
	return false
}

// line draws the field in w cells.
func (f *Field) line(th *draw.Theme, w int, focused bool) string {
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
	if focused {
		return f.input.Line(th, w)
	}
	text := draw.Cut(f.input.Value(), w)
	return text + th.Faint.Render(strings.Repeat("_", max(w-draw.Width(text), 0)))
}
