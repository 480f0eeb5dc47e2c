package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"indoubt/ledger"
)

// snapshotOf reads a cursor. Error: *ledger.CursorError.
func snapshotOf(c ledger.Cursor) (s snapshot, err error) {
	if c == "" || c == "0" {
		return beginning, nil
	}
	last, running, _ := strings.Cut(string(c), ":")
	if !s.read(last, running) || s.place() != c {
		return s, &ledger.CursorError{Cursor: c}
	}
	return s, nil
}

func (s snapshot) place() ledger.Cursor {
	if s.max <= beginning.max {
		return "0"
	}
	return ledger.Cursor(s.String())
}

// behind is the condition of an event e that the snapshot does not show. Its first part is there for
// the index.
func (s snapshot) behind(args []any) (string, []any) {
	lowest := s.max
	if len(s.running) > 0 {
		lowest = s.running[0]
	}
	return `(e.xid >= CAST(? AS xid8) AND (e.xid >= CAST(? AS xid8) OR e.xid = ANY (CAST(? AS xid8[]))))`,
		append(args, fmt.Sprint(lowest), fmt.Sprint(s.max), "{"+list(s.running)+"}")
}

// until is what is seen once everything below a transaction was looked at.
func (s snapshot) until(cut uint64, look snapshot) snapshot {
	next := snapshot{max: max(s.max, cut)}
	running := look.running
	if s.max > cut {
		running = nil
		for _, x := range s.running {
			if x >= cut || contains(look.running, x) {
				running = append(running, x)
			}
		}
	}
	for _, x := range running {
		if x < next.max {
			next.running = append(next.running, x)
		}
	}
	return next
}

func contains(all []uint64, x uint64) bool {
	for _, y := range all {
		if x == y {
			return true
		}
	}
	return false
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
