package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/console/ask"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/console/table"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

// outageAt is the outage on the screen, or under the cursor of the list; nil: neither.
func outageAt(m *Root) *ticket.Outage {
	switch {
	case m.screen == onOutage:
		return m.feed.Outage(m.outage.ID)
	case m.table.Chosen() != nil:
		return m.table.Chosen().Outage
	}
	return nil
}

func openOutage(m *Root, o *ticket.Outage) {
	from := here(m)
	m.outage.Open(o.ID)
	m.goTo(onOutage)
	went(m, from)
}

// openMatching opens the one outage that the filter of the start is about: what is
// opened for an alert opens on it. Of several the list is shown, on the dearest.
func openMatching(m *Root) {
	asked := m.o.Filter
	if m.o.Filter = ""; asked == "" {
		return
	}
	switch of := m.feed.Matching(m.table.Filter); {
	case m.screen != onList:
	case len(of) == 1:
		openOutage(m, of[0])
	case len(of) > 1:
		m.table.MoveTo(max(m.table.Find(feed.NewOutageRow(of[0]).ID), 0))
		m.say("%s outages match %s, the dearest first: ↵ opens one", ledger.Count(len(of)), asked)
		m.toast.until = m.Now.Add(time.Minute)
	}
}

// greet says what happened in the demonstration, and which keys to press.
func greet(m *Root) {
	if m.o.Banner == "" || m.greeted || len(m.feed.Outages) == 0 {
		return
	}
	o := &m.feed.Outages[0]
	m.say("%s: %s in row +: j moves, ↵ opens, ? helps, q quits", o.Where(), ticket.Plural(o.OutageAccount.Errors(), "lost answer", "lost answers"))
	m.greeted, m.toast.key, m.toast.until = true, true, m.Now.Add(time.Minute)
}

// pressOutage does what a key does to an outage, and reports whether it did.
func pressOutage(m *Root, name string) (tea.Cmd, bool) {
	o := m.feed.Outage(m.outage.ID)
	if m.screen != onOutage {
		return nil, false
	}
	if o == nil { // it is being read: no key is for what lies below
		k := m.byKey[name]
		return nil, name != "esc" && (k == nil || k.group != groupGo)
	}
	switch name {
	case "up", "k":
		m.outage.Move(&m.feed.Snapshot, o, -1)
	case "down", "j":
		m.outage.Move(&m.feed.Snapshot, o, 1)
	case "g", "home":
		m.outage.Move(&m.feed.Snapshot, o, -1<<30)
	case "G", "end":
		m.outage.Move(&m.feed.Snapshot, o, 1<<30)
	case "enter":
		switch at := m.outage.Chosen(&m.feed.Snapshot, o); {
		case at.Item != nil:
			return find(m.ctx, m.feed.Store, at.Item.OperationID, nil), true
		case at.Run != nil:
			return accountFor(m, ask.OpenRun{ID: at.Run.Record.ID}), true
		case at.Group != nil:
			return openGroup(m, at.Group), true
		}
	case "n":
		cmd := ascend(m)
		m.table.MoveBy(1)
		return cmd, true
	case "y":
		return m.carry(ask.Copy{What: "page of this outage", Text: o.Markdown(), Page: true}), true
	case "R", "A", "P":
		return actOnGroup(m, o, m.byKey[name]), true
	case "c":
		return checkGroup(m, o), true
	default:
		return nil, false
	}
	return nil, true
}

func openGroup(m *Root, g *ticket.Group) tea.Cmd {
	f, err := ledger.ParseFilter(g.Filter)
	if err != nil {
		m.warn("%s", err)
		return nil
	}
	from := here(m)
	m.goTo(onList)
	m.table.GoTo(g.Tab)
	m.table.SetFilter(f)
	went(m, from)
	return m.feed.Restart()
}

// groupAtMost is how many operations one run takes: each is judged by itself before it is
// asked about, and that must not take minutes.
var groupAtMost = 10_000

// groupFor is the group that a key acts on, or why it does nothing now.
func groupFor(m *Root, o *ticket.Outage, k *binding) (*ticket.Group, safe.Text) {
	g, c := m.outage.Chosen(&m.feed.Snapshot, o).Group, m.desk()
	judged := g != nil && (g.Name == ledger.GroupSaid || g.Name == ledger.GroupDecide) // its dialog says of each why not
	if k.verb == ticket.Retry && !judged {
		all := o.Groups()
		if i := slices.IndexFunc(all, func(g ticket.Group) bool { return g.Key == "R" }); i >= 0 {
			g = &all[i]
		}
	}
	c.Outage = nil
	switch why := m.why(&binding{acts: true}, c); {
	case !why.Empty():
		return nil, why
	case g == nil:
		return nil, safe.Say("it is for a group, and that is a run")
	case k.verb == ticket.Retry && g.Key != "R" && !judged:
		return nil, safe.Say("nothing of this outage is proven not to have landed")
	case g.Tone == ticket.Good:
		return nil, safe.Say("there is nothing to do about these")
	case k.verb == ticket.Retry && m.o.Engine == nil:
		return nil, safe.Say("nothing can be sent from this console")
	}
	return g, safe.Text{}
}

// actOnGroup asks about all operations of a group, each judged by itself, with a reason
// that the outage suggests.
func actOnGroup(m *Root, o *ticket.Outage, k *binding) tea.Cmd {
	g, why := groupFor(m, o, k)
	switch {
	case !why.Empty():
		refuse(m, "%s is off: %s", k.show, why)
		return nil
	case m.outage.JustMoved(m.Now):
		refuse(m, "another line has just come under the cursor: look, then press %s again", k.show)
		return nil
	}
	if k.verb == ticket.Retry {
		m.outage.Go(&m.feed.Snapshot, o, g.Name)
	}
	if m.o.AskName {
		askName(m, k)
		return nil
	}
	return m.freeze(k.verb, rowsOf(m, g, groupAtMost), o, g)
}

// checkAtMost is how many operations one key checks at once.
var checkAtMost = 50

// offCheck says why the group under the cursor is not checked now.
func offCheck(m *Root, g *ticket.Group) safe.Text {
	switch why := ask.OffChecks(m.desk()); {
	case !why.Empty():
		return why
	case g == nil || g.Tone == ticket.Good:
		return safe.Say("there is nothing to do about these")
	}
	return safe.Text{}
}

// checkGroup makes one check of each operation of the group under the cursor.
func checkGroup(m *Root, o *ticket.Outage) tea.Cmd {
	g := m.outage.Chosen(&m.feed.Snapshot, o).Group
	if why := offCheck(m, g); !why.Empty() {
		refuse(m, "c is off: %s", why)
		return nil
	}
	return checkEach(m, o.Title(), g.Sum.N, rowsOf(m, g, checkAtMost))
}

// checkEach makes one check of each of n rows, or of the first of them, and says what
// they found together. One that cannot be made does not keep the others from it.
func checkEach(m *Root, title safe.Text, n int, rows func(context.Context) ([]table.Mark, error)) tea.Cmd {
	engine, ctx := m.o.Engine, m.ctx
	m.say("checking %s of %s", ledger.Count(min(n, checkAtMost)), ledger.Count(n))
	return func() tea.Msg {
		marked, err := rows(ctx)
		if err != nil {
			return doneMsg{title: title, err: err}
		}
		marked = marked[:min(len(marked), checkAtMost)]
		found, failed := map[ledger.Verdict]int{}, []error{}
		for _, row := range marked {
			r, err := engine.ReadNow(ctx, row.ID)
			if err != nil {
				failed = append(failed, err)
				continue
			}
			found[cmp.Or(r.Read.Verdict, ledger.CannotTell)]++
		}
		if len(failed) > 0 && len(failed) == len(marked) {
			return doneMsg{title: title, err: failed[0]}
		}
		said := safe.Say("checked %s", ledger.Count(len(marked)-len(failed)))
		if rest := n - len(marked); len(marked) == checkAtMost && rest > 0 {
			said = safe.Say("%s of %s, the rest in their turn", said, ledger.Count(n))
		}
		for _, v := range []ledger.Verdict{ledger.Landed, ledger.NotThere, ledger.NotSeen, ledger.Twice, ledger.Different,
			ledger.CannotTell} {
			if n := found[v]; n > 0 {
				said = safe.Say("%s · %s %s", said, ledger.Count(n), ticket.VerdictWord(v))
			}
		}
		if len(failed) > 0 {
			said = safe.Say("%s · %s could not be checked: %s", said, ledger.Count(len(failed)), failed[0])
		}
		return doneMsg{what: said}
	}
}

// rowsOf reads the operations of a group, at most so many.
func rowsOf(m *Root, g *ticket.Group, most int) func(context.Context) ([]table.Mark, error) {
	store, tab, now, text := m.feed.Store, g.Tab, m.Now, g.Filter
	return func(ctx context.Context) (marked []table.Mark, err error) {
		f, err := ledger.ParseFilter(text)
		if err != nil {
			return nil, err
		}
		for after := ""; len(marked) < most; {
			page, err := store.Page(ctx, ledger.Query{Tab: tab, Filter: f, Order: ledger.OrderLoss, Now: now, After: after, Limit: min(most-len(marked), 500)})
			if err != nil {
				return nil, fmt.Errorf("read the operations of the outage: %w", err)
			}
			for _, r := range page.Rows {
				marked = append(marked, table.Mark{ID: r.ID, Version: r.Version})
			}
			if after = page.Next; after == "" {
				break
			}
		}
		return marked, nil
	}
}

// onIt is how long a person is on an outage without saying so again.
const onIt = 2 * time.Hour

// mine reports whether the person at the keys is on the outage.
func mine(m *Root, o *ticket.Outage) bool {
	by := o.TakenAt(m.Now)
	return by != "" && by == m.actor.Name
}

func takeWords(m *Root) string {
	if o := outageAt(m); o != nil && mine(m, o) {
		return "give it back"
	}
	return m.byKey["W"].short
}

// takeOutage says that the person at the keys is on the outage, or no longer.
func takeOutage(m *Root) tea.Cmd {
	o := outageAt(m)
	c := ledger.OutageChange{ChangeID: ledger.NewID(), ID: o.ID, Verb: ledger.OutageTaken, Actor: m.actor, Until: m.Now.Add(onIt)}
	said := safe.Say("you are on it for %s; W again gives it back", ticket.Age(onIt))
	if mine(m, o) {
		c.Until, said = time.Time{}, safe.Say("you are no longer on it")
	}
	return changeOutage(m, c, o.Title(), said)
}

// changeOutage writes what a person does with an outage.
func changeOutage(m *Root, c ledger.OutageChange, title, said safe.Text) tea.Cmd {
	store := m.feed.Store
	return m.write(title, "", func(ctx context.Context) (safe.Text, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		_, err := store.ChangeOutage(ctx, c)
		return said, err
	})
}

// account is an outage under the list, as far as there is room.
func account(f *draw.Frame, o *ticket.Outage, w, h int) []string {
	twice, tone := o.Twice()
	out := []string{
		f.Strong.Render(draw.Left(" "+safe.Say("%s · %s", o.Title(), o.Taken()).String(), w)),
		f.Text.Render(draw.Left(" "+o.Account().String(), w)),
	}
	for _, g := range o.Groups() {
		if g.Tone != ticket.Good {
			line := fmt.Sprintf(" %3s %s · %s", ledger.Count(g.Sum.N), g.True, g.Do)
			money := g.Money().String() + " "
			out = append(out, f.Tone(g.Tone).Render(draw.Left(line, w-draw.Width(money))+money))
		}
	}
	if len(out) < h {
		out = append(out, f.Tone(tone).Render(draw.Left(" "+twice.String(), w)))
	}
	for len(out) < h {
		out = append(out, draw.Spaces(w))
	}
	if rest := len(out) - h; rest > 0 && h > 2 {
		out[h-1] = f.Faint.Render(draw.Left(" … "+ledger.Count(rest+1)+" more, ↵ opens all", w))
	}
	return out[:h]
}

// enter opens what is under the cursor: an outage, or one operation.
func enter(m *Root) {
	if o := outageAt(m); o != nil {
		openOutage(m, o)
		return
	}
	open(m)
}

// outageHints are the bottom lines under an outage: keys that do something now, as far as
// there is room.
func outageHints(m *Root, o *ticket.Outage, c ask.Case) (looks, acts string) {
	line := func(keys ...string) string {
		var out strings.Builder
		used := 0
		for _, k := range keys {
			key, words, _ := strings.Cut(k, " ")
			var why safe.Text
			switch key {
			case "c":
				why = offCheck(m, m.outage.Chosen(&m.feed.Snapshot, o).Group)
			case "R", "A", "P":
				_, why = groupFor(m, o, m.byKey[key])
			case "W", "N", "H":
				why = m.why(m.byKey[key], c)
			}
			if need := draw.Width(k) + 2; why.Empty() && used+need <= m.w {
				used += need
				out.WriteString(" " + m.Accent.Render(key) + " " + m.Faint.Render(words) + " ")
			}
		}
		return out.String()
	}
	looks = line("↵ rows", "c check these", "W "+takeWords(m), "y copy page", "n next", "/ filter", "esc back")
	return looks, line("R send the group", "A abandon", "P park", "N note", "H hold", "? help")
}
