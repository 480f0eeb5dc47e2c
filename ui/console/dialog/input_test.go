package dialog

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

// A line is edited with the keys that a shell has, and no key leaves it.
func TestInput(t *testing.T) {
	letter := func(c rune) tea.KeyPressMsg { return tea.KeyPressMsg{Code: c, Text: string(c)} }
	ctrl := func(c rune) tea.KeyPressMsg { return tea.KeyPressMsg{Code: c, Mod: tea.ModCtrl} }
	alt := func(c rune) tea.KeyPressMsg { return tea.KeyPressMsg{Code: c, Mod: tea.ModAlt} }
	for _, c := range []struct {
		begins string // | is the cursor
		key    tea.KeyPressMsg
		ends   string
	}{
		{"ab|", letter('c'), "abc|"},
		{"a|b", letter('é'), "aé|b"},
		{"a|b", tea.KeyPressMsg{Text: "\x1b[31m"}, `a\x1b[31m|b`},
		{"ab|", tea.KeyPressMsg{Code: tea.KeyLeft}, "a|b"},
		{"|ab", ctrl('b'), "|ab"},
		{"a|b", tea.KeyPressMsg{Code: tea.KeyRight}, "ab|"},
		{"ab|", ctrl('f'), "ab|"},
		{"ab|", tea.KeyPressMsg{Code: tea.KeyHome}, "|ab"},
		{"a|b", ctrl('e'), "ab|"},
		{"one two  |", alt('b'), "one |two  "},
		{"|one", tea.KeyPressMsg{Code: tea.KeyLeft, Mod: tea.ModCtrl}, "|one"},
		{"one|  two x", alt('f'), "one  two| x"},
		{"one|", tea.KeyPressMsg{Code: tea.KeyRight, Mod: tea.ModAlt}, "one|"},
		{"a|b", tea.KeyPressMsg{Code: tea.KeyBackspace}, "|b"},
		{"|ab", ctrl('h'), "|ab"},
		{"a|b", tea.KeyPressMsg{Code: tea.KeyDelete}, "a|"},
		{"ab|", ctrl('d'), "ab|"},
		{"one two | x", ctrl('w'), "one | x"},
		{"   |", tea.KeyPressMsg{Code: tea.KeyBackspace, Mod: tea.ModAlt}, "|"},
		{"one| two x", alt('d'), "one| x"},
		{"one|  ", tea.KeyPressMsg{Code: tea.KeyDelete, Mod: tea.ModCtrl}, "one|"},
		{"one t|wo", ctrl('u'), "|wo"},
		{"one t|wo", ctrl('k'), "one t|"},
		{"a|b", ctrl('v'), "a|b"}, // reads no clipboard
		{"a|b", tea.KeyPressMsg{Code: tea.KeyUp}, "a|b"},
	} {
		var in Input
		before, after, _ := strings.Cut(c.begins, "|")
		in.Set(before + after)
		in.at = len([]rune(before))
		in.Press(c.key)
		if got := string(in.text[:in.at]) + "|" + string(in.text[in.at:]); got != c.ends || in.Value() != string(in.text) {
			t.Errorf("%s after %s: %s, want %s", c.key, c.begins, got, c.ends)
		}
	}
}
