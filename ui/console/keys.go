package console

import (
	tea "charm.land/bubbletea/v2"
)

// binding is one thing a key does: in the keymap, in the help and in the menu
// of what can be done, all from here.
type binding struct {
	keys  []string
	show  string // as help writes the key; "" hides it there
	words string
	short string // in the bottom lines; "" is not there
	group string // move, look, act, go
	acts  bool   // changes the ledger or sends: gone when this console only looks
	// off says why it does nothing now; nil or "" when it does.
	off func(m *Root) string
	// would says what it would do now, for the menu.
	would func(m *Root) string
	do    func(m *Root) tea.Cmd
}

const (
	groupMove = "Move"
	groupLook = "Look"
	groupAct  = "Act"
	groupGo   = "Console"
)

// bindings is the keymap. Small letters look, capitals act.
func bindings() []binding {
	return append(moves(), append(looks(), acts()...)...)
}

func moves() []binding {
	by := func(n int) func(*Root) tea.Cmd {
		return func(m *Root) tea.Cmd { return m.move(n) }
	}
	return []binding{
		{keys: []string{"up", "k"}, show: "↑ k", words: "up", group: groupMove, do: by(-1)},
		{keys: []string{"down", "j"}, show: "↓ j", words: "down", group: groupMove, do: by(1)},
		{keys: []string{"ctrl+u", "pgup"}, show: "^u", words: "half a page up", group: groupMove, do: func(m *Root) tea.Cmd { return m.move(-m.halfPage()) }},
		{keys: []string{"ctrl+d", "pgdown"}, show: "^d", words: "half a page down", group: groupMove, do: func(m *Root) tea.Cmd { return m.move(m.halfPage()) }},
		{keys: []string{"g", "home"}, show: "g", words: "to the top", group: groupMove, do: by(-1 << 30)},
		{keys: []string{"G", "end"}, show: "G", words: "to the bottom", group: groupMove, do: by(1 << 30)},
		{keys: []string{"enter"}, show: "↵", words: "open the whole record", short: "open", group: groupMove, do: (*Root).open},
		{keys: []string{"esc"}, show: "esc", words: "back one level", short: "back", group: groupMove, do: (*Root).back},
		{keys: []string{"tab"}, show: "tab", words: "next list", group: groupMove, do: func(m *Root) tea.Cmd { return m.nextTab(1) }},
		{keys: []string{"shift+tab"}, words: "list before", group: groupMove, do: func(m *Root) tea.Cmd { return m.nextTab(-1) }},
		{keys: []string{"1", "2", "3", "4", "0"}, show: "1–4 0", words: "Needs you, Checking, In flight, Settled, All", group: groupMove, do: nil},
	}
}

func looks() []binding {
	return []binding{
		{keys: []string{"a"}, show: "a", words: "what can I do: each act, what it would do, why it is off", short: "what can I do", group: groupLook, off: needRow, do: (*Root).menu},
		{keys: []string{"c"}, show: "c", words: "check now", short: "check now", group: groupLook, off: offCheck, do: (*Root).check,
			would: func(m *Root) string { return "asks the other side once, now" }},
		{keys: []string{"o"}, show: "o", words: "open the link", short: "open link", group: groupLook, off: offLink, do: (*Root).openLink,
			would: func(m *Root) string { return "opens " + m.chosenBrief().facts.Link }},
		{keys: []string{"y"}, show: "y", words: "copy: id, key, token, receipt, link, input", short: "copy", group: groupLook, off: needRow, do: (*Root).copyMenu},
		{keys: []string{"space"}, show: "space", words: "mark", short: "mark", group: groupLook, off: needRow, do: (*Root).mark},
		{keys: []string{"v"}, show: "v", words: "mark a range: v, move, v", group: groupLook, off: needRow, do: (*Root).rangeMark},
		{keys: []string{"/"}, show: "/", words: "filter", short: "filter", group: groupLook, do: func(m *Root) tea.Cmd { return m.ask(promptFilter) }},
		{keys: []string{":"}, show: ":", words: "command", short: "command", group: groupLook, do: func(m *Root) tea.Cmd { return m.ask(promptCommand) }},
		{keys: []string{"s"}, show: "s", words: "sort: lost if ignored, newest, oldest", group: groupLook, do: (*Root).nextOrder},
		{keys: []string{"."}, show: ".", words: "sort now", group: groupLook, do: (*Root).sortNow},
		{keys: []string{"z"}, show: "z", words: "zoom: the list alone, or with its detail", group: groupLook, do: (*Root).toggleZoom},
		{keys: []string{"[", "]"}, show: "[ ]", words: "switch side of a conflict", group: groupLook, off: offSides, do: (*Root).switchSide},
		{keys: []string{"?"}, show: "?", words: "help", short: "help", group: groupGo, do: (*Root).help},
		{keys: []string{"ctrl+l"}, show: "^l", words: "draw again", group: groupGo, do: func(m *Root) tea.Cmd { return tea.ClearScreen }},
		{keys: []string{"ctrl+z"}, show: "^z", words: "suspend", group: groupGo, do: func(m *Root) tea.Cmd { return tea.Suspend }},
		{keys: []string{"q", "ctrl+c"}, show: "q", words: "quit, after what is being sent has ended", short: "quit", group: groupGo, do: (*Root).quit},
	}
}

// misses answers keys that hands know from elsewhere.
var misses = map[string]string{
	"r": "R retries: capitals act. c checks now",
	"d": "D is dealt with, A abandons: capitals act. ^d moves down",
	"K": "k moves up, D is dealt with, A abandons. Nothing is killed here",
	"J": "j moves down",
	"x": "X records that it did not land: capitals act",
	"t": "T takes the advice: capitals act",
	"p": "P parks: capitals act",
	"n": "N leaves a note: capitals act",
	"u": "U undoes: capitals act",
	"h": "H holds; esc goes back",
	"l": "↵ opens",
	"e": "↵ opens; nothing is edited here",
	"f": "/ filters",
	"m": "space marks",
	"i": "↵ opens the whole record",
	"S": "s sorts",
	"Y": "y copies",
	"O": "o opens the link",
	"V": "v marks a range",
	"Q": "q quits",
	"Z": "z zooms",
	"L": "H on a held kind releases it",
	"E": "↵ opens the whole record",
	"F": "/ filters",
	"I": "↵ opens the whole record",
	"M": "space marks",
	"W": "nothing is written by W; capitals act, ? lists them",
	"B": "^u moves half a page up",
	"b": "^u moves half a page up",
	"w": "? lists the keys",
	"5": "lists are 1 to 4, and 0 for all",

	"ctrl+r": "changes appear by themselves; c checks now",
	"ctrl+k": "D is dealt with, A abandons. Nothing is deleted here",
	"delete": "A abandons; nothing is deleted here",
	"ctrl+f": "^d moves half a page down",
	"ctrl+b": "^u moves half a page up",
	"left":   "esc goes back",
	"right":  "↵ opens",
	"f1":     "? helps",
	"f5":     "changes appear by themselves; c checks now",
	"f10":    "q quits",
}
