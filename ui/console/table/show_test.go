package table

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/console/feed"
)

// What was asked for stays under the cursor, also where the list is read only after it.
func TestWhatWasAskedForStaysUnderTheCursor(t *testing.T) {
	rows := func(ids ...string) (out []feed.Row) {
		for _, id := range ids {
			out = append(out, feed.Row{ID: id, Row: ledger.Row{Operation: ledger.Operation{ID: id, State: ledger.Uncertain}}})
		}
		return out
	}
	asked := rows("asked")[0]
	for name, page := range map[string][]feed.Row{"in the list": rows("worst", "other", "asked"), "not in it": rows("worst", "other")} {
		for _, read := range []bool{false, true} {
			l := New(ledger.Filter{})
			l.Tab = asked.Row.TabAt(time.Now())
			if read {
				l.Take(&feed.Page{Rows: rows("worst")}, false, time.Now())
			}
			l.Show(asked, time.Now())
			l.Take(&feed.Page{Rows: page}, false, time.Now())
			chosen := l.Chosen()
			need.Must(t, chosen != nil && chosen.ID == "asked", "%s, the list read before it: %v: the cursor is on %+v", name, read, chosen)
		}
	}
}
