package console

import (
	"time"

	"indoubt/ledger"
)

// quiet is how long after the last key the order of a list stands still: a row
// must not move away under a hand that is about to act on it.
const quiet = 60 * time.Second

// list is the rows of one tab. The cursor and the marks hold ids; the index is
// only where the cursor's row happens to be.
type list struct {
	items  []shown
	at     int
	top    int
	height int // rows on the screen
	marks  map[string]int64
	anchor string // where a range began
	next   string // cursor of the page after the last row loaded
	read   bool   // the ledger was read once
	placed bool   // somebody has put the cursor where it is

	waiting     []shown // the list as it would be now, while the order stands still
	waitingNext string
	news        int
}

// chosen is the row under the cursor, or nil.
func (l *list) chosen() *shown {
	if l.at < 0 || l.at >= len(l.items) {
		return nil
	}
	return &l.items[l.at]
}

func (l *list) find(id string) int {
	for i := range l.items {
		if l.items[i].id == id {
			return i
		}
	}
	return -1
}

// moveTo puts the cursor on row i. A row that left this list meanwhile goes
// when the cursor leaves it.
func (l *list) moveTo(i int) {
	i = min(max(i, 0), len(l.items)-1)
	if i < 0 {
		l.at, l.top = 0, 0
		return
	}
	if i != l.at && l.at < len(l.items) && l.items[l.at].gone != "" {
		old := l.at
		l.items = append(l.items[:old:old], l.items[old+1:]...)
		if i > old {
			i--
		}
	}
	l.at = min(i, len(l.items)-1)
	l.scroll()
}

func (l *list) moveBy(n int) { l.moveTo(l.at + n) }

// scroll keeps the cursor on the screen.
func (l *list) scroll() {
	if l.height <= 0 {
		return
	}
	l.at = min(max(l.at, 0), max(len(l.items)-1, 0))
	if l.at < l.top {
		l.top = l.at
	}
	if l.at >= l.top+l.height {
		l.top = l.at - l.height + 1
	}
	l.top = min(l.top, max(len(l.items)-l.height, 0))
	l.top = max(l.top, 0)
}

// visible are the rows on the screen.
func (l *list) visible() []shown {
	end := min(l.top+l.height, len(l.items))
	if l.top >= end {
		return nil
	}
	return l.items[l.top:end]
}

// window is how many rows to read anew: those loaded, and if that was all of
// them, room for more.
func (l *list) window() int {
	if l.next != "" {
		return len(l.items)
	}
	return max(len(l.items)+50, 200)
}

// ids are all rows loaded.
func (l *list) ids() []string {
	out := make([]string, len(l.items))
	for i := range l.items {
		out[i] = l.items[i].id
	}
	return out
}

// here are the rows that belong to this list as far as is known, those on the
// screen first.
func (l *list) here() []string {
	out := make([]string, 0, len(l.items))
	add := func(rows []shown) {
		for i := range rows {
			if rows[i].gone == "" {
				out = append(out, rows[i].id)
			}
		}
	}
	end := min(l.top+l.height, len(l.items))
	top := min(l.top, end)
	add(l.items[top:end])
	add(l.items[:top])
	add(l.items[end:])
	return out
}

// left are the rows that stay only until the cursor or the order leaves them.
func (l *list) left() []string {
	var out []string
	for i := range l.items {
		if l.items[i].gone != "" {
			out = append(out, l.items[i].id)
		}
	}
	return out
}

// extend appends a further page.
func (l *list) extend(rows []shown, next string) {
	have := make(map[string]bool, len(l.items))
	for i := range l.items {
		have[l.items[i].id] = true
	}
	for _, r := range rows {
		if !have[r.id] {
			l.items = append(l.items, r)
		}
	}
	l.next = next
}

// refresh takes in the list as it is now. While the order stands still, rows
// change in place, those that left stay with a word how, and those that came
// are counted; otherwise the new order is taken as it is.
func (l *list) refresh(msg loadedMsg, still bool) {
	if !l.read || len(l.items) == 0 {
		l.items, l.next, l.read = msg.rows, msg.next, true
		l.waiting, l.news = nil, 0
		l.moveTo(l.at)
		return
	}
	now := make(map[string]shown, len(msg.rows))
	for _, r := range msg.rows {
		now[r.id] = r
	}
	for i := range l.items {
		if r, ok := now[l.items[i].id]; ok {
			l.items[i] = r
			delete(now, r.id)
		} else if r, ok := msg.left[l.items[i].id]; ok {
			l.items[i] = r
		}
	}
	l.news = len(now)
	if l.next != "" {
		// What follows the last row known is the next page, not news.
		for i := len(msg.rows) - 1; i >= 0; i-- {
			if _, unknown := now[msg.rows[i].id]; !unknown {
				break
			}
			l.news--
		}
	}
	l.waiting, l.waitingNext = msg.rows, msg.next
	if l.waiting == nil {
		l.waiting = []shown{} // nothing is an order too
	}
	if !still {
		l.settle()
	}
}

// stirred tells whether settle would change what is on the screen.
func (l *list) stirred() bool {
	if l.waiting == nil {
		return false
	}
	if len(l.waiting) != len(l.items) {
		return true
	}
	for i := range l.waiting {
		if l.waiting[i].id != l.items[i].id {
			return true
		}
	}
	return false
}

// settle takes the waiting order. The cursor stays on its operation, which
// keeps its place on the screen when it left the list. A cursor that nobody has
// placed stays on top, where the worst is.
func (l *list) settle() {
	if l.waiting == nil {
		return
	}
	if !l.placed {
		l.items, l.next = l.waiting, l.waitingNext
		l.waiting, l.news = nil, 0
		l.at, l.top = 0, 0
		return
	}
	var under shown
	if c := l.chosen(); c != nil {
		under = *c
	}
	offset := l.at - l.top
	l.items, l.next = l.waiting, l.waitingNext
	l.waiting, l.news = nil, 0
	if i := l.find(under.id); i >= 0 {
		l.at = i
	} else if under.id != "" { // it left, or stands further down than was read
		l.at = min(l.at, len(l.items))
		l.items = append(l.items[:l.at:l.at], append([]shown{under}, l.items[l.at:]...)...)
	}
	l.top = l.at - offset
	l.scroll()
}

// mark turns the mark of a row on or off.
func (l *list) mark(s *shown) {
	if l.marks == nil {
		l.marks = map[string]int64{}
	}
	if _, on := l.marks[s.id]; on {
		delete(l.marks, s.id)
		return
	}
	l.marks[s.id] = s.row.Version
}

// between are the rows of a range that began at the anchor.
func (l *list) between() (from, to int) {
	i := l.find(l.anchor)
	if l.anchor == "" || i < 0 {
		return 0, -1
	}
	return min(i, l.at), max(i, l.at)
}

// defaultOrder is how a tab is sorted unless somebody chose otherwise.
func defaultOrder(t ledger.Tab) ledger.Order {
	switch t {
	case ledger.TabSettled, ledger.TabAll:
		return ledger.OrderNewest
	}
	return ledger.OrderLoss
}

func orderWords(o ledger.Order) string {
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
