package console

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/safe"
)

// item is one thing the header says, in words that may be shortened. Where room
// runs out, what matters less is left out; nothing is ever cut in the middle.
type headItem struct {
	weight int // 1 matters most
	line   int // 0 or 1, where it stands if it can
	long   string
	short  string
	paint  paint
}

// headLines is the first two lines.
func (m *Root) headLines(w int) []string {
	items := m.headItems(w)
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return items[order[a]].weight < items[order[b]].weight })

	const gap = 3
	room := [2]int{w - 1, w - 1}
	at := make([]int, len(items)) // line, or -1
	text := make([]string, len(items))
	for _, i := range order {
		at[i] = -1
		need := width(items[i].short) + gap
		for _, line := range []int{items[i].line, 1 - items[i].line} {
			if items[i].short != "" && need-gap <= room[line] {
				at[i], text[i] = line, items[i].short
				room[line] -= need
				break
			}
		}
	}
	for _, i := range order {
		if more := width(items[i].long) - width(items[i].short); at[i] >= 0 && more-gap <= room[at[i]] {
			text[i] = items[i].long
			room[at[i]] -= more
		}
	}
	lines := make([]string, 2)
	for line := range lines {
		var b strings.Builder
		b.WriteString(" ")
		for i := range items {
			if at[i] != line {
				continue
			}
			if b.Len() > 1 {
				b.WriteString("   ")
			}
			b.WriteString(items[i].paint.s(text[i]))
		}
		lines[line] = fit(b.String(), w)
	}
	return lines
}

func (m *Root) headItems(w int) []headItem {
	th, c := m.th, m.counts
	var items []headItem
	add := func(weight, line int, p paint, long, short string) {
		if long != "" {
			items = append(items, headItem{weight, line, long, firstOf(short, long), p})
		}
	}
	name := "ledger"
	if m.o.LedgerPath != "" {
		name = safe.Of(filepath.Base(m.o.LedgerPath)).String()
	}
	if w >= 110 {
		name = "indoubt  " + name
	}
	short := name
	if m.o.Banner != "" {
		banner := strings.ToUpper(safe.Of(m.o.Banner).String())
		name = banner + "  " + name
		short, _, _ = strings.Cut(banner, ":")
	}
	add(11, 0, th.faint, name, short)
	if m.list.read {
		switch {
		case c.NeedsYou > 0:
			add(1, 0, th.strong, ticket.Grouped(float64(c.NeedsYou), 0)+" NEED YOU", fmt.Sprintf("%d NEED YOU", c.NeedsYou))
		default:
			add(1, 0, th.good, "nothing needs you", "0 need you")
		}
	} else {
		add(1, 0, th.faint, "reading…", "")
	}
	if c.Loss > 0 || c.ByWord > 0 {
		loss := strings.TrimSpace(m.currency() + " " + ticket.Money(c.Loss))
		long := loss + " lost if ignored"
		if c.ByWord > 0 {
			long += fmt.Sprintf(" (+%d rated by word)", c.ByWord)
			if c.Loss == 0 {
				long = plural(c.ByWord, "loss", "losses") + " rated by word if ignored"
			}
		}
		short := loss + " lost"
		if w < 110 && c.Loss > 0 {
			long = loss + " lost if ignored"
		}
		add(2, 0, th.warn, long, short)
	}
	if c.Twice > 0 {
		add(3, 0, th.bad, fmt.Sprintf("%d HAPPENED TWICE", c.Twice), fmt.Sprintf("%d TWICE", c.Twice))
	}
	if rest := c.Conflicts - c.Twice; rest > 0 {
		more := ""
		if c.Twice > 0 {
			more = "MORE "
		}
		add(3, 0, th.bad, fmt.Sprintf("%d %s%s", rest, more, strings.TrimPrefix(plural(rest, "CONFLICT", "CONFLICTS"), ticket.Grouped(float64(rest), 0)+" ")), "")
	}
	m.headStates(add)
	m.headHealth(add)
	m.headAges(add)
	switch {
	case m.lost != nil: // nothing is checked, and STALE says why
	case m.o.Engine == nil:
		add(8, 1, th.warn, "checks: none from here", "no checks")
	case m.looks: // said where states are
	case m.o.ReadOnly || m.info.ReadOnly || m.info.Copied != "":
		add(8, 1, th.faint, "checks: not from here", "no checks")
	case w >= 110:
		add(8, 1, th.faint, "checks: this console", "checks on")
	default:
		add(8, 1, th.faint, "checks on", "")
	}
	actor := safe.Of(firstOf(m.actor.Name, "nobody")).String()
	if w >= 110 && !m.o.ReadOnly {
		add(9, 0, th.text, actor+" read-write", actor)
	} else {
		add(9, 0, th.text, actor, "")
	}
	now := m.at.In(m.loc)
	clock := headItem{10, 1, now.Format("15:04 MST"), now.Format("15:04 MST"), th.text}
	return append([]headItem{clock}, items...)
}

// stepShown is how long the header tells that the clock of the host was set.
const stepShown = time.Hour

// headStates says what stops or limits this console.
func (m *Root) headStates(add func(int, int, paint, string, string)) {
	th := m.th
	if m.lost != nil {
		since := m.at.Sub(m.lostAt)
		m.ticking = true
		add(4, 0, th.bad, "STALE "+ticket.Span(since)+": ledger lost, trying again", "STALE "+ticket.Span(since))
	}
	if strained, _, _ := strings.Cut(m.info.Strained, ":"); strained != "" {
		add(4, 1, th.bad, m.info.Strained, strained)
	}
	switch {
	case m.info.Copied != "":
		add(4, 0, th.bad, "COPY: look only", "COPY")
	case m.o.ReadOnly || m.info.ReadOnly:
		add(4, 0, th.warn, "READ-ONLY", "")
	}
	if m.looks && !m.o.ReadOnly {
		add(4, 1, th.warn, "ONLY LOOKING: another engine works under another policy", "ONLY LOOKING: other policy")
	}
	for i, h := range m.holds {
		if i == 1 {
			add(4, 0, th.bad, fmt.Sprintf("+%s", strings.ToUpper(plural(len(m.holds)-1, "hold", "holds"))), "")
			break
		}
		scope := holdWords(h.Scope)
		add(4, 0, th.bad, "HOLD "+scope+" by "+ticket.Who(h.Actor.Name), "HOLD")
	}
	if step := m.info.Step; step != 0 && m.at.Sub(m.info.SteppedAt).Abs() < stepShown {
		way := "forward"
		if step < 0 {
			way = "back"
		}
		at := m.info.SteppedAt.In(m.loc).Format("15:04")
		add(4, 1, th.warn, fmt.Sprintf("CLOCK SET %s by %s at %s", strings.ToUpper(way), ticket.Age(step.Abs()), at), "CLOCK SET "+at)
	}
	if err := m.policyProblem(); err != nil {
		add(4, 1, th.warn, "POLICY NOT TAKEN: :policy says why", "POLICY BROKEN")
	} else if m.noPolicy() {
		add(4, 1, th.warn, "No policy: nothing is checked, costs are guesses", "NO POLICY")
	}
}

func holdWords(s ledger.HoldScope) string {
	text := strings.TrimPrefix(strings.TrimPrefix(string(s), "kind:"), "downstream:")
	if s == "all" {
		return "on everything"
	}
	return text
}

// headHealth says which downstreams answer. Those that do not come first.
func (m *Root) headHealth(add func(int, int, paint, string, string)) {
	var up []string
	for _, h := range m.health {
		since := ""
		if !h.Since.IsZero() {
			since = " " + ticket.Age(m.at.Sub(h.Since))
		}
		switch h.State {
		case reconcile.StateNew:
			if h.Why != "" {
				add(5, 1, m.th.warn, h.Downstream+" no answer yet"+ticket.Colon(h.Why), h.Downstream+" no answer yet")
			}
		case reconcile.StateUp:
			up = append(up, h.Downstream+" up"+since)
		case reconcile.StateDown:
			long := h.Downstream + " DOWN" + since
			if h.Why != "" {
				long += ": " + h.Why
			}
			add(5, 1, m.th.bad, long, h.Downstream+" DOWN"+since)
		case reconcile.StateHalf:
			add(5, 1, m.th.warn, h.Downstream+" trying again", "")
		case reconcile.StateSlow:
			add(5, 1, m.th.warn, h.Downstream+" throttled"+since+ticket.Colon(h.Why), h.Downstream+" throttled"+since)
		default:
			add(5, 1, m.th.warn, h.Downstream+" "+h.State, "")
		}
	}
	if len(up) > 0 {
		add(12, 1, m.th.good, strings.Join(up, " · "), fmt.Sprintf("%d up", len(up)))
	}
}

// headAges says how old the newest news are: silence is not health.
func (m *Root) headAges(add func(int, int, paint, string, string)) {
	ago := func(t time.Time) string {
		d := m.at.Sub(t)
		if d < time.Minute {
			m.ticking = true
		}
		return ticket.Age(d)
	}
	if !m.info.LastError.IsZero() {
		d := ago(m.info.LastError)
		add(7, 1, m.th.text, "last new error "+d+" ago", "error "+d+" ago")
	}
	if m.info.LastWrite.IsZero() {
		if m.list.read {
			add(6, 1, m.th.warn, "nothing was ever written", "no writes")
		}
		return
	}
	d := ago(m.info.LastWrite)
	add(6, 1, m.th.text, "last write "+d, "write "+d)
}

// tabLine names the lists, with how many stand in each.
func (m *Root) tabLine(w int) string {
	type tab struct {
		t           ledger.Tab
		key         string
		name, short string
		n           int
	}
	c := m.counts
	tabs := []tab{
		{ledger.TabNeedsYou, "1", "Needs you", "Need", c.NeedsYou},
		{ledger.TabChecking, "2", "Checking", "Chk", c.Checking},
		{ledger.TabInFlight, "3", "In flight", "Fly", c.InFlight},
		{ledger.TabSettled, "4", "Settled", "Set", c.Settled},
		{ledger.TabAll, "0", "All", "All", -1},
	}
	draw := func(short bool) string {
		var b strings.Builder
		for i, t := range tabs {
			name := t.name
			if short {
				name = t.short
			}
			text := t.key + " " + name
			if t.n >= 0 && (i == 0 || !short || t.t == m.tab) {
				text += " " + ticket.Grouped(float64(t.n), 0)
			}
			switch {
			case t.t == m.tab:
				b.WriteString(m.th.strong.s("▌" + text))
			default:
				b.WriteString(" " + m.th.faint.s(text))
			}
			if !short && i < len(tabs)-1 {
				b.WriteString("  ")
			}
		}
		return b.String()
	}
	line, notes := draw(false), m.tabNotes()
	need := 0
	if len(notes) > 0 && m.list.news+len(m.list.marks) > 0 {
		need = width(notes[0]) + 3
	}
	if visibleWidth(line)+need > w {
		line = draw(true)
	}
	return m.withRight(line, notes, w)
}

// tabNotes is what the list hides or waits with.
func (m *Root) tabNotes() []string {
	var notes []string
	if m.list.news > 0 {
		notes = append(notes, fmt.Sprintf("↑%d new", m.list.news))
	}
	if n := len(m.list.marks); n > 0 {
		notes = append(notes, fmt.Sprintf("%d marked", n))
	}
	if m.list.anchor != "" {
		notes = append(notes, "range")
	}
	if m.filter.Text != "" {
		notes = append(notes, "/"+safe.Of(m.filter.Text).String())
	}
	if m.w >= 100 {
		notes = append(notes, "sort: "+orderWords(m.order()))
	}
	return notes
}

// withRight puts notes at the right end of a line where they fit.
func (m *Root) withRight(line string, notes []string, w int) string {
	used := visibleWidth(line)
	for len(notes) > 0 {
		text := strings.Join(notes, "  ")
		if used+2+width(text) < w {
			return line + spaces(w-used-width(text)-1) + m.th.accent.s(text) + " "
		}
		if len(notes) == 1 {
			if room := w - used - 3; room > 6 {
				return line + "  " + m.th.accent.s(left(text, room)) + " "
			}
			break
		}
		notes = notes[:len(notes)-1]
	}
	return fit(line, w)
}
