package console

import (
	"context"
	"errors"
	"slices"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// The ledger is followed by looking again whenever something was committed: one
// look at a time, a pause after each, and no transaction held between.

func (m *Root) startWatch() {
	if m.stopWatch != nil {
		m.stopWatch()
	}
	ctx, cancel := context.WithCancel(m.ctx)
	m.stopWatch = cancel
	m.watch, m.waiting = m.store.Watch(ctx), false
}

// listen waits for the next commit, unless that is being waited for.
func (m *Root) listen() tea.Cmd {
	if m.waiting {
		return nil
	}
	m.waiting = true
	return m.wait(m.watch)
}

const (
	restAfterLook = 4                      // so many times as long as a look took, the writers have the ledger for themselves
	restUnwatched = 200 * time.Millisecond // at least, while no key is pressed
	atTheKeys     = 10 * time.Second       // after the last key
	restAtMost    = 2 * time.Second
)

// rest is how long the console leaves the ledger alone after a look. What was
// committed meanwhile is shown together.
func (m *Root) rest(took time.Duration) time.Duration {
	rest := max(time.Second/framesPerSecond, restAfterLook*took)
	if m.at.Sub(m.lastKey) > atTheKeys {
		rest = max(rest, restUnwatched)
	}
	return min(rest, restAtMost)
}

// rested ends the pause after a look.
func (m *Root) rested(msg restedMsg) tea.Cmd {
	if msg.gen != m.loadGen {
		return nil
	}
	m.resting = false
	cmd := m.listen()
	if m.again {
		return tea.Batch(cmd, m.reload())
	}
	return cmd
}

// firstLook is how long the first frame waits for the first page. A ledger that
// is slower is shown as being read.
const firstLook = 250 * time.Millisecond

// first reads the first page, and the details of its first row, before there is
// a terminal to draw on.
func (m *Root) first() {
	m.loadGen++
	m.list.height = 24
	type page struct {
		msg loadedMsg
		b   *brief
	}
	done := make(chan page, 1)
	ctx, store, judge, w, now := m.ctx, m.store, m.judge, m.wanted(), m.at
	go func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		p := page{msg: look(ctx, store, w, now, 0)}
		if p.msg.err == nil && len(p.msg.rows) > 0 {
			p.b, _ = readBrief(ctx, store, judge, p.msg.rows[0].id, now, true) // else it is read with the others
		}
		done <- p
	}()
	if m.o.Engine != nil {
		m.health = safe.Value(m.o.Engine.Health())
	}
	select {
	case p := <-done:
		m.tookIn(p.msg)
		if p.b != nil {
			m.briefs[p.b.raw.Operation.ID] = p.b
		}
	case <-time.After(firstLook):
	}
}

func (m *Root) wanted() wanted {
	return wanted{gen: m.loadGen, tab: m.tab, filter: m.filter, order: m.order(), limit: m.list.window(), known: m.list.here(), gone: m.list.left(), loc: m.loc}
}

// reload looks at the ledger again, one look at a time: what changes meanwhile,
// or in the pause after it, is seen by the next.
func (m *Root) reload() tea.Cmd {
	if m.loading || m.resting {
		m.again = true
		return nil
	}
	m.loading, m.again = true, false
	m.loadGen++
	return m.load(m.wanted())
}

// restart empties the list because another one is shown.
func (m *Root) restart() {
	m.list = list{height: m.list.height, marks: m.list.marks}
	m.loadGen++ // a look that is under way was for the old list
	m.loading, m.resting, m.extending = false, false, false
}

func (m *Root) loaded(msg loadedMsg) tea.Cmd {
	if msg.after != "" {
		m.extending = false
	}
	if msg.gen != m.loadGen {
		return nil
	}
	if msg.after != "" {
		if msg.err == nil {
			m.list.extend(msg.rows, msg.next)
		}
		return nil
	}
	m.tookIn(msg)
	m.loading = false
	if msg.err != nil {
		m.again = false
		return m.listen()
	}
	m.again, m.resting = m.again || msg.rest, true
	return m.after(m.rest(msg.cost), restedMsg{m.loadGen})
}

func (m *Root) tookIn(msg loadedMsg) {
	if msg.err != nil {
		if m.lost == nil {
			m.lostAt, m.retryAt = m.at, m.at.Add(time.Second)
			m.say("the ledger is lost: "+safe.Of(msg.err.Error()).String(), true)
		}
		m.lost = msg.err
		return
	}
	if m.lost != nil {
		m.say("the ledger is back", false)
	}
	m.lost, m.lastLook = nil, m.at
	if !slices.EqualFunc(m.holds, msg.holds, func(a, b ledger.Hold) bool { return a.ChangeID == b.ChangeID && a.Scope == b.Scope }) {
		for id := range m.briefs {
			m.outdated(id)
		}
	}
	if m.info.ID != "" && msg.info.ID != m.info.ID {
		m.say("another ledger stands here now: what was shown before is not in it", true)
	}
	m.counts, m.info, m.holds, m.seq = msg.counts, msg.info, msg.holds, msg.seq
	if msg.health != nil {
		m.health, m.looks = msg.health, msg.looks
	}
	for _, id := range msg.moved {
		m.outdated(id)
	}
	m.stale(msg)
	m.learn(msg.rows)
	first := !m.list.read
	m.underHand(func() { m.list.refresh(msg, m.still()) })
	if first {
		if i := m.list.find(m.kept[m.tab]); i >= 0 {
			m.list.at, m.list.placed = i, true
		}
	}
	if p := m.pinned; first && p.id != "" {
		if m.list.find(p.id) < 0 {
			m.list.items = append([]shown{p}, m.list.items...)
		}
		m.list.at, m.list.placed, m.pinned = m.list.find(p.id), true, shown{}
	}
	m.list.scroll()
	m.tellDialogs()
}

// justMoved is how long a row that came under the cursor by itself takes no act.
const justMoved = 2 * time.Second

// underHand notes when the list puts another operation under the cursor, as it
// may where nobody has placed it: the next key was meant for the one before.
func (m *Root) underHand(change func()) {
	was := ""
	if s := m.list.chosen(); s != nil {
		was = s.id
	}
	change()
	if s := m.list.chosen(); was != "" && s != nil && s.id != was {
		m.swapped = m.at
	}
}

// outdated has the details of one operation read again. They stay on the
// screen until then, so that nothing flickers.
func (m *Root) outdated(id string) {
	if b := m.briefs[id]; b != nil {
		b.old = true
	}
}

// stale drops details of rows that are not as they were when these were read.
func (m *Root) stale(msg loadedMsg) {
	for _, r := range msg.rows {
		if b := m.briefs[r.id]; b != nil && (b.raw.Operation.Version != r.row.Version || b.raw.Pricing.Reads != r.row.Pricing.Reads || b.raw.Pricing.Digest != r.row.Pricing.Digest) {
			b.old = true
		}
	}
	if len(m.briefs) > 2000 {
		m.briefs = map[string]*brief{}
	}
}

// tellDialogs marks open dialogs whose operation moved under them.
func (m *Root) tellDialogs() {
	for _, d := range m.dialogs {
		i := m.list.find(d.id)
		if d.id == "" || d.stale != "" || i < 0 {
			continue
		}
		if r := m.list.items[i].row; r.Version != d.version && d.version != 0 {
			d.stale = "now " + ticket.State(r.StateAt(m.at)) + " since " + ticket.Moment(r.UpdatedAt, m.at, m.loc) + ", by " + ticket.Who(r.Actor)
		}
	}
}

// wantBriefs reads the details of the rows on the screen that are not read yet.
func (m *Root) wantBriefs() tea.Cmd {
	if m.briefing || m.lost != nil || m.at.Before(m.briefAfter) {
		return nil
	}
	chosen := ""
	var ids []string
	if s := m.list.chosen(); s != nil {
		chosen = s.id
		if b := m.briefs[s.id]; b == nil || b.old || !b.history {
			ids = append(ids, s.id)
		}
	}
	for _, s := range m.list.visible() {
		if b := m.briefs[s.id]; (b == nil || b.old) && s.id != chosen && s.gone == "" {
			ids = append(ids, s.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	// The chosen row's details come first and by themselves: somebody reads them.
	if ids[0] == chosen && len(ids) > 1 {
		ids = ids[:1]
	}
	m.briefing = true
	m.briefGen++
	return m.loadBriefs(m.briefGen, ids, chosen)
}

func (m *Root) tookBriefs(msg briefsMsg) bool {
	m.briefing = false
	if msg.gen != m.briefGen {
		return false
	}
	for id, b := range msg.briefs {
		m.briefs[id] = b
	}
	if msg.err != nil && !errors.Is(msg.err, context.Canceled) {
		m.briefAfter = m.at.Add(2 * time.Second) // not again at once
		m.say(safe.Of(msg.err.Error()).String(), true)
	}
	return true
}

// chosenBrief is what is known of the row under the cursor, as the ledger has
// it now, or nil while it is read.
func (m *Root) chosenBrief() *brief {
	s := m.list.chosen()
	if s == nil {
		return nil
	}
	return m.briefs[s.id]
}

func (m *Root) reopened(msg reopenedMsg) tea.Cmd {
	m.retrying, m.retryAt = false, m.at.Add(2*time.Second)
	if msg.err != nil {
		if m.lost != nil {
			m.lost = msg.err
		}
		return nil
	}
	var cmds []tea.Cmd
	if msg.store != m.store {
		m.store = msg.store
		m.dialogs = nil // they are about what another ledger had shown
		m.seq = 0
		m.list.marks = nil
		m.keepPlace() // it may be the same one after all
		m.restart()
		m.briefs = map[string]*brief{}
		m.startWatch()
		cmds = append(cmds, m.listen())
	}
	m.loading, m.resting = false, false // it is back when this look has worked
	return tea.Batch(append(cmds, m.reload())...)
}
