// Package header says what stands over every screen: what needs a person, what
// stops this console, and how old what it shows is. What an empty list says is
// here too, because it may only be an all-clear where the header could be one.
package header

import (
	"cmp"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"indoubt/policy"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

	"indoubt/reconcile"
	"indoubt/ui/safe"
)

// Header is what the first two lines are made from.
type Header struct {
	*draw.Frame
	*feed.Snapshot
	Policy   Policy
	Path     string // of the ledger
	Banner   string // said first, for a demonstration
	Actor    string
	ReadOnly bool
	Checks   bool // this console has an engine
	Read     bool // the list was read once
}

// Policy is what the header asks of the policy in force.
type Policy struct {
	InForce func() *policy.Policy
	Problem func() error // why the file on disk is not in force
}

// Currency is the policy's, or "".
func (p Policy) Currency() string {
	if p.InForce != nil {
		if q := p.InForce(); q != nil {
			return q.Currency()
		}
	}
	return ""
}

// None reports whether nothing is said of any kind.
func (p Policy) None() bool {
	if p.InForce == nil {
		return false
	}
	q := p.InForce()
	return q == nil || q.Empty()
}

// Broken is why the file on disk is not in force, or nil.
func (p Policy) Broken() error {
	if p.Problem == nil {
		return nil
	}
	return p.Problem()
}

// KindsOf are the kinds of a downstream that the policy names, and one more.
func (p Policy) KindsOf(downstream, kind string) []string {
	out := []string{kind}
	if p.InForce == nil || p.InForce() == nil {
		return out
	}
	q := p.InForce()
	for _, name := range q.Kinds() {
		if k := q.Kind(name); name != kind && k.Downstream != nil && k.Downstream.Name == downstream {
			out = append(out, name)
		}
	}
	return out
}

// item is one thing the header says, in words that may be shortened. Where room
// runs out, what matters less is left out; nothing is ever cut in the middle.
type item struct {
	weight int // 1 matters most
	line   int // 0 or 1, where it stands if it can
	long   string
	short  string
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
	text := make([]string, len(items))
	for _, i := range order {
		at[i] = -1
		need := draw.Width(items[i].short) + gap
		for _, line := range []int{items[i].line, 1 - items[i].line} {
			if items[i].short != "" && need-gap <= room[line] {
				at[i], text[i] = line, items[i].short
				room[line] -= need
				break
			}
		}
	}
	for _, i := range order {
		if more := draw.Width(items[i].long) - draw.Width(items[i].short); at[i] >= 0 && more-gap <= room[at[i]] {
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
			b.WriteString(items[i].paint.Render(text[i]))
		}
		lines[line] = draw.Left(b.String(), w)
	}
	return lines
}

func (h *Header) items(w int) []item {
	th, c := h.Theme, h.Counts
	var items []item
	add := func(weight, line int, p draw.Paint, long, short string) {
		if long != "" {
			items = append(items, item{weight, line, long, cmp.Or(short, long), p})
		}
	}
	name := "ledger"
	if h.Path != "" {
		name = safe.Of(filepath.Base(h.Path)).String()
	}
	if w >= 110 {
		name = "indoubt  " + name
	}
	short := name
	if h.Banner != "" {
		banner := strings.ToUpper(safe.Of(h.Banner).String())
		name = banner + "  " + name
		short, _, _ = strings.Cut(banner, ":")
	}
	add(11, 0, th.Faint, name, short)
	if h.Read {
		switch {
		case c.NeedsYou > 0:
			add(1, 0, th.Strong, ticket.Grouped(float64(c.NeedsYou), 0)+" NEED YOU", fmt.Sprintf("%d NEED YOU", c.NeedsYou))
		default:
			add(1, 0, th.Good, "nothing needs you", "0 need you")
		}
	} else {
		add(1, 0, th.Faint, "reading…", "")
	}
	h.risks(add, w)
	h.states(add)
	h.health(add)
	h.ages(add)
	switch {
	case h.Lost != nil: // nothing is checked, and STALE says why
	case !h.Checks:
		add(8, 1, th.Warn, "checks: none from here", "no checks")
	case h.Looks: // said where states are
	case h.ReadOnly || h.Info.ReadOnly || h.Info.Copied != "":
		add(8, 1, th.Faint, "checks: not from here", "no checks")
	case w >= 110:
		add(8, 1, th.Faint, "checks: this console", "checks on")
	default:
		add(8, 1, th.Faint, "checks on", "")
	}
	actor := safe.Of(cmp.Or(h.Actor, "nobody")).String()
	if w >= 110 && !h.ReadOnly {
		add(9, 0, th.Text, actor+" read-write", actor)
	} else {
		add(9, 0, th.Text, actor, "")
	}
	now := h.Now.In(h.Zone)
	clock := item{10, 1, now.Format("15:04 MST"), now.Format("15:04 MST"), th.Text}
	return append([]item{clock}, items...)
}

// risks says what is lost if no one acts, and what has gone wrong already.
func (h *Header) risks(add func(int, int, draw.Paint, string, string), w int) {
	th, c := h.Theme, h.Counts
	if c.Loss > 0 || c.ByWord > 0 {
		loss := strings.TrimSpace(h.Policy.Currency() + " " + ticket.Money(c.Loss))
		long := loss + " lost if ignored"
		if c.ByWord > 0 {
			long += fmt.Sprintf(" (+%d rated by word)", c.ByWord)
			if c.Loss == 0 {
				long = draw.Plural(c.ByWord, "loss", "losses") + " rated by word if ignored"
			}
		}
		short := loss + " lost"
		if w < 110 && c.Loss > 0 {
			long = loss + " lost if ignored"
		}
		add(2, 0, th.Warn, long, short)
	}
	if c.Twice > 0 {
		add(3, 0, th.Bad, fmt.Sprintf("%d HAPPENED TWICE", c.Twice), fmt.Sprintf("%d TWICE", c.Twice))
	}
	if rest := c.Conflicts - c.Twice; rest > 0 {
		more := ""
		if c.Twice > 0 {
			more = "MORE "
		}
		add(3, 0, th.Bad, fmt.Sprintf("%d %s%s", rest, more, strings.TrimPrefix(draw.Plural(rest, "CONFLICT", "CONFLICTS"), ticket.Grouped(float64(rest), 0)+" ")), "")
	}
}

// stepShown is how long the header tells that the clock of the host was set.
const stepShown = time.Hour

// states says what stops or limits this console.
func (h *Header) states(add func(int, int, draw.Paint, string, string)) {
	th := h.Theme
	if h.Lost != nil {
		since := h.Now.Sub(h.LostAt)
		h.Ticks = true
		add(4, 0, th.Bad, "STALE "+ticket.Span(since)+": ledger lost, trying again", "STALE "+ticket.Span(since))
	}
	if strained, _, _ := strings.Cut(h.Info.Strained, ":"); strained != "" {
		add(4, 1, th.Bad, h.Info.Strained, strained)
	}
	switch {
	case h.Info.Copied != "":
		add(4, 0, th.Bad, "COPY: look only", "COPY")
	case h.ReadOnly || h.Info.ReadOnly:
		add(4, 0, th.Warn, "READ-ONLY", "")
	}
	if h.Looks && !h.ReadOnly {
		add(4, 1, th.Warn, "ONLY LOOKING: another engine works under another policy", "ONLY LOOKING: other policy")
	}
	for i, hold := range h.Holds {
		if i == 1 {
			add(4, 0, th.Bad, fmt.Sprintf("+%s", strings.ToUpper(draw.Plural(len(h.Holds)-1, "hold", "holds"))), "")
			break
		}
		add(4, 0, th.Bad, safe.Say("HOLD %s by %s", ticket.Scope(hold.Scope), ticket.Who(hold.Actor.Name)).String(), "HOLD")
	}
	if step := h.Info.Step; step != 0 && h.Now.Sub(h.Info.SteppedAt).Abs() < stepShown {
		way := "forward"
		if step < 0 {
			way = "back"
		}
		at := h.Info.SteppedAt.In(h.Zone).Format("15:04")
		add(4, 1, th.Warn, fmt.Sprintf("CLOCK SET %s by %s at %s", strings.ToUpper(way), ticket.Age(step.Abs()), at), "CLOCK SET "+at)
	}
	if err := h.Policy.Broken(); err != nil {
		add(4, 1, th.Warn, "POLICY NOT TAKEN: :policy says why", "POLICY BROKEN")
	} else if h.Policy.None() {
		add(4, 1, th.Warn, "No policy: nothing is checked, costs are guesses", "NO POLICY")
	}
}

// health says which downstreams answer. Those that do not come first.
func (h *Header) health(add func(int, int, draw.Paint, string, string)) {
	var up []string
	for _, d := range h.Health {
		since := ""
		if !d.Since.IsZero() {
			since = " " + ticket.Age(h.Now.Sub(d.Since))
		}
		switch d.State {
		case reconcile.StateNew:
			if d.Why != "" {
				add(5, 1, h.Warn, d.Downstream+" no answer yet"+ticket.Colon(d.Why).String(), d.Downstream+" no answer yet")
			}
		case reconcile.StateUp:
			up = append(up, d.Downstream+" up"+since)
		case reconcile.StateDown:
			long := d.Downstream + " DOWN" + since
			if d.Why != "" {
				long += ": " + d.Why
			}
			add(5, 1, h.Bad, long, d.Downstream+" DOWN"+since)
		case reconcile.StateHalf:
			add(5, 1, h.Warn, d.Downstream+" trying again", "")
		case reconcile.StateSlow:
			add(5, 1, h.Warn, d.Downstream+" throttled"+since+ticket.Colon(d.Why).String(), d.Downstream+" throttled"+since)
		default:
			add(5, 1, h.Warn, d.Downstream+" "+d.State, "")
		}
	}
	if len(up) > 0 {
		add(12, 1, h.Good, strings.Join(up, " · "), fmt.Sprintf("%d up", len(up)))
	}
}

// ages says how old the newest news are: silence is not health.
func (h *Header) ages(add func(int, int, draw.Paint, string, string)) {
	ago := func(t time.Time) string {
		d := h.Now.Sub(t)
		if d < time.Minute {
			h.Ticks = true
		}
		return ticket.Age(d)
	}
	if !h.Info.LastError.IsZero() {
		d := ago(h.Info.LastError)
		add(7, 1, h.Text, "last new error "+d+" ago", "error "+d+" ago")
	}
	if h.Info.LastWrite.IsZero() {
		if h.Read {
			add(6, 1, h.Warn, "nothing was ever written", "no writes")
		}
		return
	}
	d := ago(h.Info.LastWrite)
	add(6, 1, h.Text, "last write "+d, "write "+d)
}
