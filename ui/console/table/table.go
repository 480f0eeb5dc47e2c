// Package table is the list on the screen: its rows in an order that holds still
// under a hand, its filter, its marks and a cursor that stays on its operation.
// It reads nothing by itself.
package table

import (
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ui/console/feed"
)

// justMoved is how long a row that came under the cursor by itself takes no act.
const justMoved = 2 * time.Second

// Table is the lists of a console, of which one is feed.Row. The cursor and the marks
// hold ids; the index is only where the cursor's row happens to be.
type Table struct {
	Tab    ledger.Tab
	Filter ledger.Filter
	Marks  map[string]feed.Row // as they were when they were marked
	Height int                 // rows on the screen
	// SentTo is where the policy in force sends each kind; it gives nil without one.
	SentTo func() func(kind string) string
	list

	orders  map[ledger.Tab]ledger.Order
	kept    map[ledger.Tab]string // where the cursor was in each list
	pinned  feed.Row              // asked for by its id: feed.Row in its list even where the first page does not reach
	swapped time.Time             // when another operation came under the cursor by itself
}

// filter is the selection by the policy in force.
func (l *Table) filter() ledger.Filter { return l.Filter.By(l.SentTo()) }

type list struct {
	Items  []feed.Row
	At     int
	Top    int
	Anchor string // where a range began
	Next   string // cursor of the page after the last row loaded
	Read   bool   // the ledger was read once
	ToEnd  bool   // the cursor goes on to the last row, of which the page is not read yet
	Placed bool   // a person has put the cursor where it is
	News   int    // rows that wait to come in

	waiting     []feed.Row // the list as it would be now, while the order stands still
	waitingNext string
}

// New is the list of what needs a decision.
func New(f ledger.Filter) *Table {
	return &Table{Tab: ledger.TabNeedsYou, Filter: f, SentTo: func() func(string) string { return nil },
		orders: map[ledger.Tab]ledger.Order{}, kept: map[ledger.Tab]string{}}
}

func (l *Table) Wanted() feed.Wanted {
	return feed.Wanted{Tab: l.Tab, Filter: l.filter(), Order: l.Order(), Limit: l.window(), Known: l.here(),
		Visible: len(l.Visible()), Gone: l.left()}
}

func (l *Table) Order() ledger.Order {
	if o, ok := l.orders[l.Tab]; ok {
		return o
	}
	return defaultOrder(l.Tab)
}

// SetOrder sorts this list anew, from its top.
func (l *Table) SetOrder(o ledger.Order) {
	l.orders[l.Tab] = o
	l.list = list{}
}

// SetFilter shows another selection, from its top. It reports whether that is
// another one.
func (l *Table) SetFilter(f ledger.Filter) bool {
	if f.Text == l.Filter.Text && l.Read {
		return false
	}
	l.Filter = f
	l.list = list{}
	return true
}

// GoTo shows another list, where it was left. It reports whether that is another one.
func (l *Table) GoTo(t ledger.Tab) bool {
	if t == l.Tab {
		return false
	}
	l.Forget()
	l.Tab = t
	return true
}

// Forget empties the list and takes the marks off; its place is kept.
func (l *Table) Forget() {
	if s := l.Chosen(); s != nil {
		l.kept[l.Tab] = s.ID
	}
	l.Marks, l.list = nil, list{}
}

// Show puts the cursor on a row that was asked for: in this list, else on top of
// the list where it belongs. It reports whether that is another list.
func (l *Table) Show(s feed.Row, now time.Time) (other bool) {
	i := l.Find(s.ID)
	if i < 0 {
		if t := s.Row.TabAt(now); t != l.Tab || l.Filter.Text != "" {
			l.Tab, l.Filter, l.list, other = t, ledger.Filter{}, list{}, true
		}
		if !l.Read { // the list comes later
			l.pinned = s
		}
		l.Items = append([]feed.Row{s}, l.Items...)
		i = 0
	}
	l.At, l.Placed = i, true
	l.Scroll()
	return other
}

// Return shows a list as it was left, with the cursor on this row. It reports whether
// that is another list.
func (l *Table) Return(t ledger.Tab, f ledger.Filter, row string) (other bool) {
	l.pinned = feed.Row{}
	moved := l.GoTo(t)
	other = l.SetFilter(f) || moved
	if i := l.Find(row); i >= 0 {
		l.MoveTo(i)
	}
	l.kept[t] = row
	return other
}

// Take takes in the list as it is now. Where still is set a person is at the keys,
// and the order does not change.
func (l *Table) Take(p *feed.Page, still bool, now time.Time) {
	first := !l.Read
	if p.Part {
		p = l.whole(p)
	}
	l.underHand(now, func() { l.refresh(p, still) })
	if first {
		if i := l.Find(l.kept[l.Tab]); i >= 0 {
			l.At, l.Placed = i, true
		}
		if s := l.pinned; s.ID != "" {
			if l.Find(s.ID) < 0 {
				l.Items = append([]feed.Row{s}, l.Items...)
			}
			l.At, l.Placed, l.pinned = l.Find(s.ID), true, feed.Row{}
		}
	}
	l.Scroll()
}

// Calm takes the order that waited, now that no hand is at the keys.
func (l *Table) Calm(now time.Time) {
	l.underHand(now, l.Settle)
}

// underHand notes when the list puts another operation under the cursor, as it
// may where no person has placed it: the next key was meant for the one before.
func (l *Table) underHand(now time.Time, change func()) {
	was := ""
	if s := l.Chosen(); s != nil {
		was = s.ID
	}
	change()
	if s := l.Chosen(); was != "" && s != nil && s.ID != was {
		l.swapped = now
	}
}

// JustMoved reports whether another row has just come under the cursor by itself.
func (l *Table) JustMoved(now time.Time) bool { return now.Sub(l.swapped) < justMoved }

// Unpriced reports whether a row that is loaded and still open has a price of another
// version or of another policy than the one with this digest: the ledger's sums have
// that price too.
func (l *Table) Unpriced(digest string, now time.Time) bool {
	return slices.ContainsFunc(l.Items, func(s feed.Row) bool {
		open := s.Gone.Empty() && s.Row.TabAt(now) == ledger.TabNeedsYou
		return open && (s.Row.Pricing.Digest == "" || digest != "" && s.Row.Pricing.Digest != digest)
	})
}

// More is the page to read before the cursor comes to the end of this one, or "".
func (l *Table) More() string {
	if l.At+2*max(l.Height, 10) < len(l.Items) {
		return ""
	}
	return l.Next
}

// Chosen is the row under the cursor, or nil.
func (l *Table) Chosen() *feed.Row {
	if l.At < 0 || l.At >= len(l.Items) {
		return nil
	}
	return &l.Items[l.At]
}

func (l *Table) Find(id string) int {
	for i := range l.Items {
		if l.Items[i].ID == id {
			return i
		}
	}
	return -1
}

// MoveTo puts the cursor on row i. A row that left this list meanwhile goes
// when the cursor leaves it.
func (l *Table) MoveTo(i int) {
	i = min(max(i, 0), len(l.Items)-1)
	if i < 0 {
		l.At, l.Top = 0, 0
		return
	}
	if i != l.At && l.At < len(l.Items) && !l.Items[l.At].Gone.Empty() {
		old := l.At
		l.Items = append(l.Items[:old:old], l.Items[old+1:]...)
		if i > old {
			i--
		}
	}
	l.At = min(i, len(l.Items)-1)
	l.Scroll()
}

func (l *Table) MoveBy(n int) { l.MoveTo(l.At + n) }

// Scroll keeps the cursor on the screen.
func (l *Table) Scroll() {
	l.At = min(max(l.At, 0), max(len(l.Items)-1, 0))
	if l.Height <= 0 { // a screen without room for a row
		l.Top = l.At
		return
	}
	l.Top = max(min(l.Top, l.At), l.At-l.Height+1)
	l.Top = max(min(l.Top, len(l.Items)-l.Height), 0)
}

func (l *Table) Visible() []feed.Row {
	end := min(l.Top+l.Height, len(l.Items))
	if l.Top >= end {
		return nil
	}
	return l.Items[l.Top:end]
}

// window is how many rows to read anew: those loaded, and if that was all of
// them, room for more.
func (l *Table) window() int {
	read := 0 // an outage's row and one that has left are not of the page
	for i := range l.Items {
		if l.Items[i].Operation() && l.Items[i].Gone.Empty() {
			read++
		}
	}
	if l.Next == "" {
		read += 50
	}
	return max(read, 200)
}

// here are the rows that belong to this list as far as is known, those on the
// screen first.
func (l *Table) here() []string {
	out := make([]string, 0, len(l.Items))
	add := func(rows []feed.Row) {
		for i := range rows {
			if rows[i].Gone.Empty() {
				out = append(out, rows[i].ID)
			}
		}
	}
	end := min(l.Top+l.Height, len(l.Items))
	top := min(l.Top, end)
	add(l.Items[top:end])
	add(l.Items[:top])
	add(l.Items[end:])
	return out
}

// left are the rows that stay only until the cursor or the order leaves them.
func (l *Table) left() []string {
	var out []string
	for i := range l.Items {
		if !l.Items[i].Gone.Empty() {
			out = append(out, l.Items[i].ID)
		}
	}
	return out
}

// refresh takes in the list as it is now. While the order stands still, rows
// change in place, those that left stay with a word how, and those that came
// are counted; otherwise the new order is taken as it is.
func (l *Table) refresh(p *feed.Page, still bool) {
	if !l.Read || len(l.Items) == 0 {
		l.Items, l.Next, l.Read = p.Rows, p.Next, true
		l.waiting, l.News = nil, 0
		l.MoveTo(l.At)
		return
	}
	now := make(map[string]feed.Row, len(p.Rows))
	for _, r := range p.Rows {
		now[r.ID] = r
	}
	for i := range l.Items {
		if r, ok := now[l.Items[i].ID]; ok {
			l.Items[i] = r
			delete(now, r.ID)
		} else if r, ok := p.Left[l.Items[i].ID]; ok {
			l.Items[i] = r
		}
	}
	l.News = len(now)
	if l.Next != "" {
		// What follows the last row known is the next page, not news.
		for i := len(p.Rows) - 1; i >= 0; i-- {
			if _, unknown := now[p.Rows[i].ID]; !unknown {
				break
			}
			l.News--
		}
	}
	l.waiting, l.waitingNext = p.Rows, p.Next
	if l.waiting == nil {
		l.waiting = []feed.Row{} // nothing is an order too
	}
	if !still {
		l.Settle()
	}
}

// Settle takes the waiting order. The cursor stays on its operation, which
// keeps its place on the screen when it left the list. A cursor that no person
// has placed stays on top, where the worst is.
func (l *Table) Settle() {
	if l.waiting == nil {
		return
	}
	if !l.Placed {
		l.Items, l.Next = l.waiting, l.waitingNext
		l.waiting, l.News = nil, 0
		l.At, l.Top = 0, 0
		return
	}
	var under feed.Row
	if c := l.Chosen(); c != nil {
		under = *c
	}
	offset := l.At - l.Top
	l.Items, l.Next = l.waiting, l.waitingNext
	l.waiting, l.News = nil, 0
	if i := l.Find(under.ID); i >= 0 {
		l.At = i
	} else if under.ID != "" { // it left, or stands further down than was read
		l.At = min(l.At, len(l.Items))
		l.Items = append(l.Items[:l.At:l.At], append([]feed.Row{under}, l.Items[l.At:]...)...)
	}
	l.Top = l.At - offset
	l.Scroll()
}

// between are the rows of a range that began at the anchor.
func (l *Table) between() (from, to int) {
	i := l.Find(l.Anchor)
	if l.Anchor == "" || i < 0 {
		return 0, -1
	}
	return min(i, l.At), max(i, l.At)
}

func defaultOrder(t ledger.Tab) ledger.Order {
	switch t {
	case ledger.TabSettled, ledger.TabAll:
		return ledger.OrderNewest
	}
	return ledger.OrderLoss
}

func (l *Table) NextOrder() ledger.Order {
	return map[ledger.Order]ledger.Order{ledger.OrderLoss: ledger.OrderNewest, ledger.OrderNewest: ledger.OrderOldest,
		ledger.OrderOldest: ledger.OrderLoss}[l.Order()]
}

// Beside is the list n further on; the parked ones only where there are any.
func (l *Table) Beside(n int, c ledger.Counts) ledger.Tab {
	i := slices.IndexFunc(tabs, func(t tab) bool { return t.tab == l.Tab })
	for {
		i = (i + n + len(tabs)) % len(tabs)
		if tabs[i].tab != ledger.TabParked || c.Parked > 0 {
			return tabs[i].tab
		}
	}
}

func OrderWords(o ledger.Order) string {
	switch o {
	case ledger.OrderLoss:
		return "lost if ignored ↓"
	case ledger.OrderNewest:
		return "newest first"
	case ledger.OrderOldest:
		return "oldest first"
	}
	return string(o)
}
