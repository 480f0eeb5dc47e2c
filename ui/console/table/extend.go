package table

import (
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ui/console/feed"
)

// Extend appends a further page, to the order that waits too.
func (l *Table) Extend(rows []feed.Row, next string, now time.Time) {
	l.Items = without(l.Items, rows)
	if l.waiting != nil {
		l.waiting = without(l.waiting, rows)
	}
	if l.Next, l.waitingNext = next, next; l.ToEnd {
		l.underHand(now, func() { l.MoveTo(len(l.Items) - 1) })
	}
}

// without are rows, and those of more that are not among them.
func without(rows, more []feed.Row) []feed.Row {
	have := make(map[string]bool, len(rows))
	for i := range rows {
		have[rows[i].ID] = true
	}
	for _, r := range more {
		if !have[r.ID] {
			rows = append(rows, r)
		}
	}
	return rows
}

// whole is the list with what has changed in it.
func (l *Table) whole(p *feed.Page) *feed.Page {
	old := l.waiting
	if old == nil {
		old = l.Items
	}
	var same []feed.Row
	for _, r := range old {
		if now, known := p.Left[r.ID]; known {
			r = now
		}
		if r.Gone.Empty() {
			same = append(same, r)
		}
	}
	rows := without(slices.Clone(p.Rows), same)
	slices.SortStableFunc(rows, func(a, b feed.Row) int {
		if l.Order() == ledger.OrderOldest {
			return a.Row.CreatedAt.Compare(b.Row.CreatedAt)
		}
		return b.Row.UpdatedAt.Compare(a.Row.UpdatedAt)
	})
	return &feed.Page{Rows: rows, Next: l.Next, Left: p.Left}
}
