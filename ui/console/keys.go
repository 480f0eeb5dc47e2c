package console

import (
	"indoubt/ledger"
	"indoubt/ui/console/ask"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/prompt"
	"indoubt/ui/console/table"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

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
	first bool   // a beginner needs it: the help begins with it
	acts  bool   // changes the ledger or sends: gone when this console only looks
	verb  ledger.Verb
	// signed: do writes at once, under a name.
	signed bool
	// off says why it does nothing now; nil or nothing when it does.
	off func(ask.Case) safe.Text
	// would says what it would do now, for the menu.
	would func(ask.Case) safe.Text
	// opens is the dialog that asks first; do is what it does by itself. Where a
	// verb is named and rows are marked, the verb is for all of them.
	opens func(ask.Case) *dialog.Dialog
	do    func(m *Root) tea.Cmd
}

// signs reports whether the key leads to something that is written under a name.
func (k *binding) signs() bool { return k.opens != nil || k.verb != "" || k.signed }

const (
	groupFirst = "First"

	groupMove = "Move"
	groupLook = "Look"
	groupAct  = "Act"
	groupGo   = "Console"
)

// keymap is every key. Small letters look, capitals act.
func keymap() (all []binding, byKey map[string]*binding) {
	all, byKey = append(moves(), append(looks(), acts()...)...), map[string]*binding{}
	for i := range all {
		for _, k := range all[i].keys {
			byKey[k] = &all[i]
		}
	}
	for key, tab := range table.Keys() {
		byKey[key] = &binding{keys: []string{key}, do: func(m *Root) tea.Cmd { return m.goTab(tab) }}
	}
	for _, k := range []binding{{show: ":hold", off: ask.Case.OffHold, opens: ask.Case.Hold}, {show: ":release", off: ask.Case.OffRelease, opens: ask.Case.Release}} {
		k.keys, k.acts = []string{k.show}, true // commands: no hand presses them
		byKey[k.show] = &k
	}
	return all, byKey
}

// why is why a key does nothing now, or nothing. There is no other place where that is
// worked out: the key itself, the help, the menu and the bottom lines ask here.
func (m *Root) why(k *binding, c ask.Case) safe.Text {
	switch {
	case k.acts && c.Closed != "":
		return safe.Of(c.Closed)
	case k.acts && m.run != nil:
		return underWay
	case k.off == nil || k.verb != "" && c.Marks.N > 0:
		return safe.Text{} // of marked rows each is judged by itself
	}
	return k.off(c)
}

var underWay = safe.Say("a bulk run is under way from here, p pauses it")

func moves() []binding {
	by := func(n int) func(*Root) tea.Cmd {
		return func(m *Root) tea.Cmd { return m.move(n) }
	}
	return []binding{
		{keys: []string{"up", "k"}, show: "↑ k", first: true, words: "up", group: groupMove, do: by(-1)},
		{keys: []string{"down", "j"}, show: "↓ j", first: true, words: "down", group: groupMove, do: by(1)},
		{keys: []string{"ctrl+u", "pgup"}, show: "^u", words: "half a page up", group: groupMove, do: func(m *Root) tea.Cmd { return m.move(-max(m.table.Height/2, 1)) }},
		{keys: []string{"ctrl+d", "pgdown"}, show: "^d", words: "half a page down", group: groupMove, do: func(m *Root) tea.Cmd { return m.move(max(m.table.Height/2, 1)) }},
		{keys: []string{"g", "home"}, show: "g", words: "to the top", group: groupMove, do: by(-theLast)},
		{keys: []string{"G", "end"}, show: "G", words: "to the last row", group: groupMove, do: by(theLast)},
		{keys: []string{"enter"}, show: "↵", first: true, words: "open the row: an outage, or the whole record", short: "open", group: groupMove, off: ask.Case.OffOpen, do: func(m *Root) tea.Cmd { enter(m); return nil }},
		{keys: []string{"esc"}, show: "esc", first: true, words: "back one level", short: "back", group: groupMove, do: (*Root).back},
		{keys: []string{"tab"}, show: "tab", words: "next list", group: groupMove, do: func(m *Root) tea.Cmd { return m.goTab(m.table.Beside(1, m.feed.Counts)) }},
		{keys: []string{"shift+tab"}, words: "list before", group: groupMove, do: func(m *Root) tea.Cmd { return m.goTab(m.table.Beside(-1, m.feed.Counts)) }},
		{keys: []string{"1", "2", "3", "4", "5", "0"}, show: "1–5 0", words: "Needs you, Checking, In flight, Settled, Parked, All", group: groupMove, do: nil},
	}
}

func looks() []binding {
	return []binding{
		{keys: []string{"a"}, show: "a", first: true, words: "what can I do: each act, what it would do, why it is off", short: "what can I do", group: groupLook, off: ask.Case.OffRow, do: (*Root).menu},
		{keys: []string{"c"}, show: "c", words: "check now", short: "check now", group: groupLook, off: ask.Off(ticket.Check), do: check,
			would: ask.WouldCheck},
		{keys: []string{"o"}, show: "o", words: "open the link", short: "open link", group: groupLook, off: ask.Case.OffLink, do: openLink,
			would: ask.Case.WouldOpen},
		{keys: []string{"y"}, show: "y", words: "copy: id, key, token, receipt, link, input", short: "copy", group: groupLook, off: ask.Case.OffRow, opens: ask.Case.CopyMenu},
		{keys: []string{"space"}, show: "space", words: "mark", short: "mark", group: groupLook, off: ask.Case.OffRow, do: func(m *Root) tea.Cmd { return m.mark(false) }},
		{keys: []string{"v"}, show: "v", words: "mark a range: v, move, v", group: groupLook, off: ask.Case.OffRow, do: func(m *Root) tea.Cmd { return m.mark(true) }},
		{keys: []string{"/"}, show: "/", first: true, words: "filter", short: "filter", group: groupLook, do: func(m *Root) tea.Cmd { return m.ask(prompt.Filter) }},
		{keys: []string{":"}, show: ":", words: "command", short: "command", group: groupLook, do: func(m *Root) tea.Cmd { return m.ask(prompt.Command) }},
		{keys: []string{"s"}, show: "s", words: "sort: lost if ignored, newest, oldest", group: groupLook, do: func(m *Root) tea.Cmd { return m.setOrder(m.table.NextOrder()) }},
		{keys: []string{"."}, show: ".", words: "sort now", group: groupLook, do: func(m *Root) tea.Cmd { m.table.Settle(); return m.feed.Reload() }},
		{keys: []string{"p"}, show: "p", words: "the bulk run: pause it, look, go on, end it", short: "run", group: groupGo, off: ask.Case.OffRun, do: openOrPause},
		{keys: []string{"?"}, show: "?", words: "help", short: "help", group: groupGo, do: func(m *Root) tea.Cmd { return help(m) }},
		{keys: []string{"ctrl+l"}, show: "^l", words: "draw again", group: groupGo, do: func(m *Root) tea.Cmd { return tea.ClearScreen }},
		{keys: []string{"ctrl+z"}, show: "^z", words: "suspend", group: groupGo, do: suspend},
		{keys: []string{"q", "ctrl+c"}, show: "q", first: true, words: "quit, after what is being sent has ended", short: "quit", group: groupGo, do: (*Root).quit},
	}
}

// acts are the capitals. Each opens a dialog; none does anything by itself.
func acts() []binding {
	say := func(text safe.Format) func(ask.Case) safe.Text {
		return func(ask.Case) safe.Text { return safe.Say(text) }
	}
	all := []binding{
		{show: "T", first: true, words: "take the advice", short: "take advice", off: ask.Case.OffAdvice, do: (*Root).takeAdvice, would: ask.Case.WouldAdvise},
		{show: "C", words: "confirm: it landed", short: "confirm", verb: ledger.VerbConfirm, off: ask.Off(ledger.VerbConfirm), opens: ask.Case.Confirm,
			would: say("records that it landed, with its receipt; sends nothing")},
		{show: "X", words: "did not land", short: "did not land", verb: ledger.VerbDeny, off: ask.Off(ledger.VerbConfirm), opens: ask.Case.Deny,
			would: say("records, on your word, that it did not land; sends nothing")},
		{show: "R", words: "retry: send once more", short: "retry", verb: ticket.Retry, off: ask.Off(ticket.Retry), do: (*Root).plan, would: ask.Case.WouldRetry},
		{show: "A", words: "abandon: not sent any more", short: "abandon", verb: ledger.VerbAbandon, off: ask.Off(ledger.VerbAbandon), opens: ask.Case.Abandon,
			would: say("ends it; sends nothing, and the same again is refused")},
		{show: "D", words: "resolve a conflict: what is true of it", short: "resolve", verb: ledger.VerbAck, off: ask.Off(ledger.VerbAck), opens: ask.Case.Ack,
			would: say("asks what is true: taken back outside, both wanted, landed once, did not land")},
		{show: "P", words: "park: out of the way until a time", short: "park", verb: ledger.VerbPark, off: ask.Off(ledger.VerbPark), opens: ask.Case.Park,
			would: say("takes it out of the way until a time; checks go on")},
		{show: "H", words: "hold: stop every retry, also by hand; on what is held: release", off: ask.Case.OffHold, opens: ask.Case.HoldOrRelease, would: ask.Case.WouldHold},
		{show: "N", words: "note", short: "note", verb: ledger.VerbNote, off: ask.Case.OffNote, opens: ask.Case.Note,
			would: say("leaves a remark; changes nothing else")},
		{show: "W", first: true, words: "I am on it: an outage, for two hours; again: no longer", short: "I am on it", off: ask.Case.OffOutage, signed: true, do: takeOutage},
		{show: "U", words: "undo: back in doubt", short: "undo", off: ask.Off(ledger.VerbUndo), opens: ask.Case.Undo,
			would: say("puts it back in doubt, for a person to settle; what was abandoned is what it was")},
	}
	for i := range all {
		all[i].keys, all[i].group, all[i].acts = []string{all[i].show}, groupAct, true
	}
	return all
}
