// Package header says what stands over every screen: what needs a person, what
// stops this console, and how old what it shows is. What an empty list says is
// here too, because it may only be an all-clear where the header could be one.
package header

import (
	"cmp"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// Header is what the first two lines are made from.
type Header struct {
	*draw.Frame
	*feed.Snapshot
	Policy   *policy.Policy
	Broken   error  // why the file on disk is not in force
	Path     string // of the ledger
	Banner   string // said first, for a demonstration
	Actor    string
	ReadOnly bool
	Checks   bool // this console has an engine
	Read     bool // the list was read once
	Pricing  bool // rows have other prices than the sums: an engine is to price them anew
}

// item is one thing the header says, in words that may be shortened. Where room
// runs out, what matters less is left out; nothing is ever cut in the middle.
type item struct {
	weight int // 1 matters most
	line   int // 0 or 1, where it stands if it can
	long   safe.Text
	short  safe.Text
	paint  draw.Paint
}

// Lines is the first two lines, each exactly w cells.
func (h *Header) Lines(w int) []string {
	items := h.items(w)
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return items[order[a]].weight < items[order[b]].weight })

	const gap = 3
	room := [2]int{w - 1, w - 1}
	at := make([]int, len(items)) // line, or -1
	text := make([]safe.Text, len(items))
	for _, i := range order {
		at[i] = -1
		need := draw.Width(items[i].short.String()) + gap
		for _, line := range []int{items[i].line, 1 - items[i].line} {
			if !items[i].short.Empty() && need-gap <= room[line] {
				at[i], text[i] = line, items[i].short
				room[line] -= need
				break
			}
		}
	}
	for _, i := range order {
		if more := draw.Width(items[i].long.String()) - draw.Width(items[i].short.String()); at[i] >= 0 && more-gap <= room[at[i]] {
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
			b.WriteString(items[i].paint.Render(text[i].String()))
		}
		lines[line] = draw.Left(b.String(), w)
	}
	return lines
}

func (h *Header) items(w int) []item {
	th, c := h.Theme, h.Counts
	var items []item
	add := func(weight, line int, p draw.Paint, long, short safe.Text) {
		if !long.Empty() {
			items = append(items, item{weight, line, long, short.Or(long), p})
		}
	}
	name := safe.Say("ledger")
	if h.Path != "" {
		name = safe.Of(filepath.Base(h.Path))
	}
	if w >= 110 {
		name = safe.Say("indoubt  %s", name)
	}
	short := name
	if h.Banner != "" {
		banner := strings.ToUpper(h.Banner)
		name = safe.Say("%s  %s", banner, name)
		banner, _, _ = strings.Cut(banner, ":")
		short = safe.Of(banner)
	}
	add(11, 0, th.Faint, name, short)
	if h.Read {
		switch {
		case c.NeedsYou > 0:
			short := safe.Say("%s NEED YOU", ledger.Count(c.NeedsYou))
			long := safe.Say("%s%s", short, h.inOutages())
			if w >= 60 { // there is room for it, when other parts yield
				short = long
			}
			add(1, 0, th.Strong, long, short)
		case h.Lost != nil || !h.Info.Failover.At.IsZero(): // that is what does
			add(1, 0, th.Text, safe.Say("0 need you"), safe.Text{})
		default:
			add(1, 0, th.Good, safe.Say("nothing needs you"), safe.Say("0 need you"))
		}
	} else {
		add(1, 0, th.Faint, safe.Say("reading…"), safe.Text{})
	}
	h.risks(add)
	h.hidden(add)
	h.states(add)
	h.health(add)
	h.ages(add)
	switch {
	case h.Lost != nil: // nothing is checked, and STALE says why
	case !h.Checks:
		add(8, 1, th.Warn, safe.Say("checks: none from here"), safe.Say("no checks"))
	case h.Policy.Empty():
		add(8, 1, th.Warn, safe.Say("no checks"), safe.Text{})
	case h.Looks: // said where states are
	case h.ReadOnly || h.Info.Copied != "":
		add(8, 1, th.Faint, safe.Say("checks: not from here"), safe.Say("no checks"))
	case h.CheckedBy == reconcile.Nobody:
		add(8, 1, th.Warn, safe.Say("checks: %s", h.CheckedBy), safe.Say("no checks"))
	case w >= 110 && h.CheckedBy != "":
		add(12, 1, th.Faint, safe.Say("checks: %s", h.CheckedBy), safe.Text{})
	}
	add(9, 0, th.Text, safe.Of(cmp.Or(h.Actor, "no name")), safe.Text{})
	now := safe.Of(h.Now.In(h.Zone).Format("15:04 MST"))
	clock := item{0, 1, now, now, th.Text} // first, so that its place is always the same
	if w < 30 {
		clock.weight = 10
	}
	return append([]item{clock}, items...)
}

// inOutages says how many of those that need a person are in outages.
func (h *Header) inOutages() safe.Text {
	in, n := 0, 0
	for i := range h.Outages {
		if needs := h.Outages[i].Needs().N; needs > 0 {
			in, n = in+needs, n+1
		}
	}
	rest := h.Counts.NeedsYou - in
	if n == 0 || rest < 0 {
		return safe.Text{}
	}
	these, others := ledger.Count(in), ticket.Plural(rest, "other", "others")
	if n == 1 {
		return safe.Say(": %s one outage, %s", these, others)
	}
	return safe.Say(": %s in %s outages, %s", these, ledger.Count(n), others)
}

// risks says what is lost if no one acts, and what has gone wrong already.
func (h *Header) risks(add func(weight, line int, p draw.Paint, long, short safe.Text)) {
	th, c := h.Theme, h.Counts
	// Two numbers: what is known, and what the rows' own odds make of the rest.
	if c.Unsent > 0 {
		add(2, 0, th.Warn, safe.Say("%s unsent", h.money(c.Unsent)), safe.Say("%s unsent", ticket.Money(c.Unsent)))
	}
	atStake := c.Loss - c.Unsent
	if atStake > 0 {
		add(2, 0, th.Warn, safe.Say("%s at stake", h.money(atStake)), safe.Say("%s at stake", ticket.Money(atStake)))
	}
	if c.ByWord > 0 && c.Loss == 0 && !h.Policy.Empty() { // without a policy there are guesses only
		add(2, 0, th.Warn, safe.Say("%s priced in words", ledger.Count(c.ByWord)), safe.Text{})
	}
	switch {
	case !h.Pricing:
	case h.Checks && !h.Looks && !h.ReadOnly:
		add(2, 0, th.Faint, safe.Say("pricing…"), safe.Text{})
	default: // no engine here prices them
		add(2, 0, th.Warn, safe.Say("sums of another policy"), safe.Say("other prices"))
	}
	if c.Twice > 0 {
		add(3, 0, th.Bad, safe.Say("%s HAPPENED TWICE", ledger.Count(c.Twice)), safe.Say("%s TWICE", ledger.Count(c.Twice)))
	}
	if rest := c.Conflicts - c.Twice; rest > 0 {
		one, many := "CONFLICT", "CONFLICTS"
		if c.Twice > 0 {
			one, many = "MORE CONFLICT", "MORE CONFLICTS"
		}
		add(3, 0, th.Bad, safe.Of(ticket.Plural(rest, one, many)), safe.Text{})
	}
}

func (h *Header) money(v float64) string {
	return strings.TrimSpace(h.Policy.Currency() + " " + ticket.Money(v))
}

// hidden says what needs a person and is left out by the filter.
func (h *Header) hidden(add func(weight, line int, p draw.Paint, long, short safe.Text)) {
	n := h.Hidden
	if n.NeedsYou == 0 {
		return
	}
	paint, short := h.Warn, safe.Say("%s hidden", ledger.Count(n.NeedsYou))
	long := short
	if n.Loss > 0 {
		long = safe.Say("%s: %s", long, h.money(n.Loss))
	}
	for _, c := range []struct {
		n    int
		word string
	}{{n.Twice, "TWICE"}, {n.Conflicts - n.Twice, "IN CONFLICT"}} {
		if c.n > 0 {
			of := safe.Say("%s %s", ledger.Count(c.n), c.word)
			paint, short, long = h.Bad, safe.Say("%s, %s", short, of), safe.Say("%s, %s", long, of)
		}
	}
	add(3, 0, paint, long, short)
}

// stepShown is how long the header tells that the clock of the host was set.
const stepShown = time.Hour

// states says what stops or limits this console.
func (h *Header) states(add func(weight, line int, p draw.Paint, long, short safe.Text)) {
	th := h.Theme
	if h.Lost != nil {
		stale := safe.Say("STALE %s", ticket.Span(h.Now.Sub(h.LostAt)))
		h.Ticks = true
		add(1, 0, th.Bad, safe.Say("%s: ledger lost, trying again", stale), stale)
	}
	if over := ticket.Failover(h.Info.Failover, h.Zone); !over.Empty() {
		short, _, _ := strings.Cut(over.String(), ": ")
		add(3, 0, th.Bad, over, safe.Of(short))
	}
	if strained, _, _ := strings.Cut(h.Info.Strained, ":"); strained != "" {
		add(4, 1, th.Bad, safe.Of(h.Info.Strained), safe.Of(strained))
	}
	switch {
	case h.Info.MovedTo != "":
		add(4, 0, th.Bad, safe.Say("MOVED to %s: look only", h.Info.MovedTo), safe.Say("MOVED: look only"))
	case h.Info.Copied != "":
		add(4, 0, th.Bad, safe.Say("COPY: look only"), safe.Say("COPY"))
	case h.ReadOnly:
		add(4, 0, th.Warn, safe.Say("READ-ONLY"), safe.Text{})
	}
	switch since := h.Now.Sub(h.Info.EngineAt); {
	case h.Info.EngineAt.IsZero() || h.Lost != nil:
	case since < -policy.UncheckedAfter:
		add(4, 0, th.Bad, safe.Say("NO ENGINE since the clock was set back"), safe.Say("NO ENGINE"))
	case since >= policy.UncheckedAfter:
		add(4, 0, th.Bad, safe.Say("NO ENGINE has checked for %s", ticket.Span(since)), safe.Say("NO ENGINE %s", ticket.Span(since)))
	}
	if h.Looks && !h.ReadOnly {
		add(4, 1, th.Warn, safe.Say("ONLY LOOKING: this host does not have the policy in force"), safe.Say("ONLY LOOKING: other policy"))
	}
	for i, hold := range h.Holds {
		if i == 1 {
			add(4, 0, th.Bad, safe.Say("+%s", ticket.Plural(len(h.Holds)-1, "HOLD", "HOLDS")), safe.Text{})
			break
		}
		word := "HOLD"
		if hold.Begins {
			word = "NOTHING BEGINS:"
		}
		add(4, 0, th.Bad, safe.Say("%s %s by %s", word, ticket.Scope(hold.Scope), ticket.Who(hold.Actor.Name)), safe.Say("HOLD"))
	}
	if look := h.Info.Look; look != nil && !look.Until.IsZero() {
		until := look.Until.In(h.Zone).Format("2 Jan 15:04")
		add(4, 1, th.Warn, safe.Say("ADOPTED: new keys are looked for first until %s", until), safe.Say("LOOKS FIRST"))
	}
	if step := h.Info.Step; step != 0 && h.Now.Sub(h.Info.SteppedAt).Abs() < stepShown {
		way := "FORWARD"
		if step < 0 {
			way = "BACK"
		}
		at := h.Info.SteppedAt.In(h.Zone).Format("15:04")
		add(4, 1, th.Warn, safe.Say("CLOCK SET %s by %s at %s", way, ticket.Age(step.Abs()), at), safe.Say("CLOCK SET %s", at))
	}
	if h.Broken != nil {
		add(4, 1, th.Warn, safe.Say("POLICY NOT TAKEN: :policy says why"), safe.Say("POLICY NOT TAKEN"))
	} else if h.Policy.Empty() {
		add(4, 1, th.Warn, safe.Say("No policy: nothing is checked, costs are guesses"), safe.Say("NO POLICY"))
	}
}

// health says which downstreams answer. Those that do not come first.
func (h *Header) health(add func(weight, line int, p draw.Paint, long, short safe.Text)) {
	var up []safe.Text
	lack := map[string][]string{} // who lacks a secret
	for _, d := range h.Health {
		if d.State == reconcile.StateNoKey {
			lack[d.Why] = append(lack[d.Why], d.Downstream)
		}
	}
	for _, d := range h.Health {
		since := ""
		if !d.Since.IsZero() {
			since = " " + ticket.Age(h.Now.Sub(d.Since))
		}
		switch d.State {
		case reconcile.StateNew:
			if d.Why != "" {
				short := safe.Say("%s no answer yet", d.Downstream)
				add(5, 1, h.Warn, safe.Say("%s%s", short, ticket.Colon(d.Why)), short)
			}
		case reconcile.StateUp:
			up = append(up, safe.Say("%s up%s", d.Downstream, since))
		case reconcile.StateDown:
			add(5, 1, h.Bad, safe.Say("%s DOWN%s%s", d.Downstream, since, ticket.Colon(d.Why)), safe.Say("%s DOWN%s", d.Downstream, since))
		case reconcile.StateNoKey:
			if who := lack[d.Why]; who[0] == d.Downstream { // once for all of them
				add(5, 1, h.Warn, safe.Say("%s no key: %s", ticket.List(who), d.Why), safe.Say("no key: %s", d.Why))
			}
		case reconcile.StateHalf:
			add(5, 1, h.Warn, safe.Say("%s trying again", d.Downstream), safe.Text{})
		case reconcile.StateSlow:
			short := safe.Say("%s throttled%s", d.Downstream, since)
			add(5, 1, h.Warn, safe.Say("%s: asked to wait until %s", short, h.Moment(d.Until)), short)
		default:
			add(5, 1, h.Warn, safe.Say("%s %s", d.Downstream, d.State), safe.Text{})
		}
	}
	if len(up) > 0 {
		add(12, 1, h.Good, safe.Join(up, " · "), safe.Say("%d up", len(up)))
	}
}

// ages says how old the newest news are: silence is not health.
func (h *Header) ages(add func(weight, line int, p draw.Paint, long, short safe.Text)) {
	ago := func(t time.Time) string {
		d := h.Now.Sub(t)
		if d < time.Minute {
			h.Ticks = true
		}
		return ticket.Ago(d)
	}
	if !h.Info.LastError.IsZero() {
		d := ago(h.Info.LastError)
		add(7, 1, h.Text, safe.Say("last new error %s", d), safe.Say("error %s", d))
	}
	if h.Info.LastWrite.IsZero() {
		if h.Read {
			add(6, 1, h.Warn, safe.Say("nothing was ever written"), safe.Say("no writes"))
		}
		return
	}
	d := strings.TrimSuffix(ago(h.Info.LastWrite), " ago")
	add(6, 1, h.Text, safe.Say("last write %s", d), safe.Say("write %s", d))
}
