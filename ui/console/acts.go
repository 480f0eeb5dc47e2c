package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// acts are the capitals. Each opens a dialog; none does anything by itself.
func acts() []binding {
	dialogOf := func(make func(m *Root, b *brief) *dialog) func(m *Root) tea.Cmd {
		return func(m *Root) tea.Cmd {
			b := m.chosenBrief()
			return m.asPerson(func() tea.Cmd { m.show(make(m, b)); return nil })
		}
	}
	say := func(text string) func(*Root) string { return func(*Root) string { return text } }
	bulk := func(verb ledger.Verb, one func(m *Root) tea.Cmd) func(m *Root) tea.Cmd {
		return func(m *Root) tea.Cmd {
			if len(m.list.marks) > 0 {
				return m.bulk(verb)
			}
			return one(m)
		}
	}
	return []binding{
		{keys: []string{"T"}, show: "T", words: "take the advice", short: "take advice", group: groupAct, acts: true, off: offAdvice, do: (*Root).takeAdvice,
			would: func(m *Root) string {
				verb, why := m.adviceWords(m.chosenBrief())
				return "opens what is advised: " + strings.ToLower(verb) + ticket.Colon(why)
			}},
		{keys: []string{"C"}, show: "C", words: "confirm: it landed", short: "confirm", group: groupAct, acts: true, off: orMarks(offDoubt), would: say("records that it landed, with its receipt; sends nothing"),
			do: bulk(ledger.VerbConfirm, dialogOf((*Root).confirmDialog))},
		{keys: []string{"X"}, show: "X", words: "did not land", short: "did not land", group: groupAct, acts: true, off: orMarks(offDoubt), would: say("records, on your word, that it did not land; sends nothing"),
			do: bulk(ledger.VerbDeny, dialogOf((*Root).denyDialog))},
		{keys: []string{"R"}, show: "R", words: "retry: send once more", short: "retry", group: groupAct, acts: true, off: orMarks(offRetry), would: wouldRetry,
			do: bulk(verbRetry, func(m *Root) tea.Cmd { return m.asPerson(m.plan) })},
		{keys: []string{"A"}, show: "A", words: "abandon: never sent, stays unknown", short: "abandon", group: groupAct, acts: true, off: orMarks(offAbandon), would: say("ends it as it is; sends nothing, its pipeline is refused"),
			do: bulk(ledger.VerbAbandon, dialogOf((*Root).abandonDialog))},
		{keys: []string{"D"}, show: "D", words: "dealt with: a conflict was put right outside", short: "dealt with", group: groupAct, acts: true, off: orMarks(offAck), would: say("takes the conflict's flag down, with a reference"),
			do: bulk(ledger.VerbAck, dialogOf((*Root).ackDialog))},
		{keys: []string{"P"}, show: "P", words: "park: out of the way until a time", short: "park", group: groupAct, acts: true, off: orMarks(offPark), would: say("takes it out of the way until a time; checks go on"),
			do: bulk(ledger.VerbPark, dialogOf((*Root).parkDialog))},
		{keys: []string{"H"}, show: "H", words: "hold: stop every send by machine; again: release", short: "", group: groupAct, acts: true, off: offHold, would: wouldHold, do: (*Root).holdOrRelease},
		{keys: []string{"N"}, show: "N", words: "note", short: "note", group: groupAct, acts: true, off: needRow, would: say("leaves a remark; changes nothing else"),
			do: bulk(ledger.VerbNote, dialogOf((*Root).noteDialog))},
		{keys: []string{"U"}, show: "U", words: "undo: back in doubt", short: "undo", group: groupAct, acts: true, off: offUndo, would: say("puts it back in doubt; only a person settles it then"),
			do: dialogOf((*Root).undoDialog)},
	}
}

// orMarks lets an act be on while rows are marked: each is judged by itself.
func orMarks(off func(*Root) string) func(*Root) string {
	return func(m *Root) string {
		if len(m.list.marks) > 0 {
			return ""
		}
		return off(m)
	}
}

// closedToActs says why nothing can be decided from here at all, or "".
func (m *Root) closedToActs() string {
	switch {
	case m.lost != nil:
		return "the ledger is lost: what you see is old"
	case m.info.Copied != "":
		return "this ledger is a copy, look only; `indoubt adopt` makes it your own"
	case m.o.ReadOnly || m.info.ReadOnly:
		return "read-only: this console only looks"
	}
	return ""
}

func needRow(m *Root) string {
	if m.list.chosen() == nil {
		return "there is no row"
	}
	if m.chosenBrief() == nil {
		return "still reading this row, a moment"
	}
	return ""
}

// standing gives the chosen operation's state, or why there is none.
func (m *Root) standing() (*brief, ledger.State, string) {
	if why := needRow(m); why != "" {
		return nil, "", why
	}
	b := m.chosenBrief()
	return b, b.rec.Operation.StateAt(m.at), ""
}

func offDoubt(m *Root) string {
	b, state, why := m.standing()
	if why != "" {
		return why
	}
	o := &b.rec.Operation
	switch state {
	case ledger.Uncertain:
		return ""
	case ledger.Pending:
		return "in flight until " + ticket.Moment(o.DeadlineAt, m.at, m.loc) + ": its own answer comes first"
	}
	return "settled: " + ticket.State(state) + ", by " + ticket.Who(o.Actor) + ". U puts it back in doubt first"
}

func offRetry(m *Root) string {
	b, state, why := m.standing()
	if why != "" {
		return why
	}
	o := &b.rec.Operation
	switch state {
	case ledger.Pending:
		return "an attempt is in flight until " + ticket.Moment(o.DeadlineAt, m.at, m.loc)
	case ledger.Committed:
		return "it landed: sending again would do it twice"
	case ledger.Abandoned:
		return "abandoned by " + ticket.Who(o.Actor) + ". U puts it back in doubt first"
	}
	if h := b.rec.HeldBy(); h != nil {
		return "held by " + ticket.Who(h.Actor.Name) + ": " + h.Reason + ". H releases"
	}
	if m.o.Engine == nil {
		return "nothing can be sent from this console"
	}
	return ""
}

func wouldRetry(m *Root) string {
	b := m.chosenBrief()
	what := "sends once more"
	if b.facts.Via == "pipeline" {
		what = "lets " + firstOf(b.rec.Operation.Source.Pipeline, "its pipeline") + " send once more"
	}
	switch b.facts.Basis {
	case ledger.BasisAbsent, ledger.BasisKeySafe:
		return what + ": " + ticket.Because(b.facts.Basis, "") + "; one y"
	}
	return what + " at own risk: a reason, and type " + ticket.Typed(b.facts.Advice.Duplicate.Value)
}

func offAbandon(m *Root) string {
	b, state, why := m.standing()
	if why != "" {
		return why
	}
	switch state {
	case ledger.Pending:
		return "an attempt is in flight until " + ticket.Moment(b.rec.Operation.DeadlineAt, m.at, m.loc)
	case ledger.Committed:
		return "it landed: there is nothing to abandon"
	case ledger.Abandoned:
		return "it is abandoned already, by " + ticket.Who(b.rec.Operation.Actor)
	}
	return ""
}

func offAck(m *Root) string {
	b, _, why := m.standing()
	if why != "" {
		return why
	}
	if b.rec.Operation.Conflict == ledger.NoConflict {
		return "no conflict: nothing to deal with outside"
	}
	return ""
}

func offPark(m *Root) string {
	b, state, why := m.standing()
	if why != "" {
		return why
	}
	o := &b.rec.Operation
	if state == ledger.Pending {
		return "in flight until " + ticket.Moment(o.DeadlineAt, m.at, m.loc)
	}
	if o.Conflict == ledger.NoConflict && (state == ledger.Committed || state == ledger.Abandoned) {
		return "settled: it is out of the way already"
	}
	return ""
}

func offUndo(m *Root) string {
	b, state, why := m.standing()
	if why != "" {
		return why
	}
	if len(m.list.marks) > 0 {
		return "one at a time: esc takes the marks off"
	}
	switch state {
	case ledger.Uncertain:
		return "nothing to undo: it is in doubt"
	case ledger.Pending:
		return "nothing to undo: an attempt is in flight until " + ticket.Moment(b.rec.Operation.DeadlineAt, m.at, m.loc)
	}
	return ""
}

func offCheck(m *Root) string {
	b, state, why := m.standing()
	if why != "" {
		return why
	}
	switch {
	case m.lost != nil:
		return "the ledger is lost"
	case m.o.Engine == nil:
		return "nothing is checked from this console"
	case m.o.ReadOnly || m.info.ReadOnly || m.info.Copied != "":
		return "read-only: nothing is asked of the other side"
	case b.facts.Unasked != "":
		return "no check is possible: " + b.facts.Unasked
	case !b.facts.HasRead:
		return "no check: the policy has no `read` for " + b.rec.Operation.Kind
	case state == ledger.Pending:
		return "in flight until " + ticket.Moment(b.rec.Operation.DeadlineAt, m.at, m.loc)
	}
	return ""
}

func offLink(m *Root) string {
	b, _, why := m.standing()
	if why != "" {
		return why
	}
	if b.facts.Link == "" {
		return "no link: the policy names none for " + b.rec.Operation.Kind
	}
	return ""
}

func offSides(m *Root) string {
	b, _, why := m.standing()
	if why != "" {
		return why
	}
	if len(sidesOf(b, func(time.Time) string { return "" })) < 2 {
		return "no conflict with two sides"
	}
	return ""
}

func offAdvice(m *Root) string {
	_, _, why := m.standing()
	return why
}

func offHold(m *Root) string { return "" }

func wouldHold(m *Root) string {
	if h := m.coveringHold(); h != nil {
		return "releases the hold " + holdWords(h.Scope) + " by " + ticket.Who(h.Actor.Name)
	}
	return "stops every send by machine, of a kind, a downstream or everything"
}

// coveringHold is the hold that H would release: one on the chosen kind, else
// any that is in force.
func (m *Root) coveringHold() *ledger.Hold {
	if b := m.chosenBrief(); b != nil {
		if h := b.rec.HeldBy(); h != nil {
			return h
		}
	}
	if len(m.holds) > 0 {
		return &m.holds[0]
	}
	return nil
}

func (m *Root) holdOrRelease() tea.Cmd {
	h := m.coveringHold()
	return m.asPerson(func() tea.Cmd {
		if h != nil {
			m.show(m.releaseDialog(*h))
		} else {
			m.show(m.holdDialog(m.chosenBrief()))
		}
		return nil
	})
}

// takeAdvice opens the dialog of what is advised.
func (m *Root) takeAdvice() tea.Cmd {
	b := m.chosenBrief()
	verb, why := m.adviceWords(b)
	key := ""
	switch verb {
	case "RETRY":
		key = "R"
	case "CONFIRM":
		key = "C"
	case "ABANDON":
		key = "A"
	case "LEAVE":
		key = "P"
	case "RAISE":
		key = "N"
	case "LOOK":
		if b.rec.Operation.Conflict != ledger.NoConflict {
			return m.open()
		}
		if b.facts.Link != "" {
			return m.openLink()
		}
		m.say("look outside, then C with its receipt, or X with how you know", false)
		return m.open()
	}
	if key == "" {
		m.say(strings.ToLower(verb)+ticket.Colon(why), false)
		return nil
	}
	return m.pressBinding(key)
}

// asPerson runs an act after it is known who decides.
func (m *Root) asPerson(then func() tea.Cmd) tea.Cmd {
	if m.o.AskName && !m.named {
		m.show(m.nameDialog(then))
		return nil
	}
	return then()
}

// menu lists each act, what it would do now, or why it is off.
func (m *Root) menu() tea.Cmd {
	b := m.chosenBrief()
	d := m.about(b, "What can I do? Press its key")
	d.keys = map[string]func(*dialog) tea.Cmd{}
	closed := m.closedToActs()
	for i := range m.keys {
		k := &m.keys[i]
		if k.would == nil {
			continue
		}
		why := ""
		if k.off != nil {
			why = k.off(m)
		}
		if k.acts && closed != "" {
			why = closed
		}
		name, _, _ := strings.Cut(firstOf(k.short, k.words), ":")
		f := fact{label: k.show + "  " + name}
		if why != "" {
			f.text = "off: " + why
		} else {
			f.text = k.would(m)
			key := k.keys[0]
			d.keys[key] = func(*dialog) tea.Cmd { return m.pressBinding(key) }
		}
		d.facts = append(d.facts, f)
	}
	m.show(d)
	return nil
}

var bareWord = regexp.MustCompile(`^[\pL\pN_.:@/+,-]+$`)

// shellWord is a text as one word of a command line.
func shellWord(s string) string {
	if bareWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// copyMenu copies through the terminal (OSC 52), so it works over SSH.
func (m *Root) copyMenu() tea.Cmd {
	b := m.chosenBrief()
	d := m.about(b, "Copy")
	d.keys = map[string]func(*dialog) tea.Cmd{}
	o := &b.raw.Operation
	add := func(key, name, value string) {
		if value == "" {
			return
		}
		d.facts = append(d.facts, fact{key + "  " + name, cut(safe.Of(value).String(), 200), false})
		d.keys[key] = func(*dialog) tea.Cmd {
			m.say("copied the "+name+", if your terminal allows it: "+cut(safe.Of(value).String(), 60), false)
			return tea.SetClipboard(safe.Exact(value)) // it may be pasted into a shell
		}
	}
	add("i", "id", o.ID)
	add("v", "id@version", fmt.Sprintf("%s@%d", o.ID, o.Version))
	add("k", "key", o.Key)
	add("t", "token", o.Token)
	add("r", "receipt", o.Receipt())
	for i := 1; i < len(o.Receipts) && i < 9; i++ {
		add(fmt.Sprint(i+1), fmt.Sprintf("receipt %d", i+1), o.Receipts[i])
	}
	add("l", "link", b.facts.Link)
	var input bytes.Buffer
	if json.Compact(&input, o.Input) == nil {
		add("n", "input", input.String())
	}
	add("s", "command", "indoubt show "+shellWord(o.ID))
	m.show(d)
	return nil
}
