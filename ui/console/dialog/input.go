package dialog

import (
	"slices"
	"strings"
	"unicode"

	"indoubt/ui/console/draw"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// Input is a line that is edited with the keys of a shell. It reads no clipboard,
// and does not blink: nothing on this screen moves without a cause.
type Input struct {
	text []rune
	at   int // the cursor stands before this letter
}

// Value is the text.
func (in *Input) Value() string { return string(in.text) }

// Set replaces the text and puts the cursor behind it.
func (in *Input) Set(text string) {
	in.text = []rune(text)
	in.at = len(in.text)
}

// Press enters a letter, made safe to show, or edits.
func (in *Input) Press(msg tea.KeyPressMsg) {
	switch msg.String() {
	case "left", "ctrl+b":
		in.at = max(in.at-1, 0)
	case "right", "ctrl+f":
		in.at = min(in.at+1, len(in.text))
	case "home", "ctrl+a":
		in.at = 0
	case "end", "ctrl+e":
		in.at = len(in.text)
	case "alt+left", "ctrl+left", "alt+b":
		in.at = in.wordBefore()
	case "alt+right", "ctrl+right", "alt+f":
		in.at = in.wordAfter()
	case "backspace", "ctrl+h":
		in.cut(in.at-1, in.at)
	case "delete", "ctrl+d":
		in.cut(in.at, in.at+1)
	case "alt+backspace", "ctrl+backspace", "ctrl+w":
		in.cut(in.wordBefore(), in.at)
	case "alt+delete", "ctrl+delete", "alt+d":
		in.cut(in.at, in.wordAfter())
	case "ctrl+u":
		in.cut(0, in.at)
	case "ctrl+k":
		in.cut(in.at, len(in.text))
	default:
		in.insert(safe.Of(msg.Text).String())
	}
}

// Paste enters pasted text at the cursor as one line, made safe to show.
func (in *Input) Paste(text string) {
	in.insert(safe.Of(strings.Join(strings.Fields(text), " ")).String())
}

func (in *Input) insert(text string) {
	letters := []rune(text)
	in.text = slices.Insert(in.text, in.at, letters...)
	in.at += len(letters)
}

// cut takes out what lies between two places, and puts the cursor there.
func (in *Input) cut(from, to int) {
	from, to = max(from, 0), min(to, len(in.text))
	in.text = slices.Delete(in.text, from, to)
	in.at = from
}

// wordBefore is where the word before the cursor begins.
func (in *Input) wordBefore() int {
	at := in.at
	for at > 0 && unicode.IsSpace(in.text[at-1]) {
		at--
	}
	for at > 0 && !unicode.IsSpace(in.text[at-1]) {
		at--
	}
	return at
}

// wordAfter is where the word after the cursor ends.
func (in *Input) wordAfter() int {
	at := in.at
	for at < len(in.text) && unicode.IsSpace(in.text[at]) {
		at++
	}
	for at < len(in.text) && !unicode.IsSpace(in.text[at]) {
		at++
	}
	return at
}

// Line draws the text with its cursor, scrolled so that the cursor shows.
func (in *Input) Line(th *draw.Theme, w int) string {
	if w < 2 {
		return draw.Spaces(w)
	}
	text, at := in.text, in.at
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
