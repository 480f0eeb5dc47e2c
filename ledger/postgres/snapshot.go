package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"indoubt/ledger"
)

// snapshot says which transactions had ended: those below max, but for those that ran.
type snapshot struct {
	max     int64
	running []int64 // ascending, all below max
}

// beginning is before all transactions.
var beginning = snapshot{max: 1}

// snapshotOf reads a cursor. Error: *ledger.CursorError.
func snapshotOf(c ledger.Cursor) (s snapshot, err error) {
	if c == "" || c == "0" {
		return beginning, nil
	}
	last, running, _ := strings.Cut(string(c), ":")
	if !s.read(last, running) || s.cursor() != c {
		return s, &ledger.CursorError{Cursor: c}
	}
	return s, nil
}

func (s snapshot) cursor() ledger.Cursor {
	if s.max <= beginning.max {
		return "0"
	}
	return ledger.Cursor(decimal(s.max) + ":" + joined(s.running))
}

func (s *snapshot) read(last, running string) bool {
	var err error
	if s.max, err = strconv.ParseInt(last, 10, 64); err != nil || s.max <= 0 {
		return false
	}
	s.running = nil
	for n := range strings.SplitSeq(running, ",") {
		if n == "" {
			continue
		}
		xid, err := strconv.ParseInt(n, 10, 64)
		if err != nil || xid < 0 || xid >= s.max {
			return false
		}
		s.running = append(s.running, xid)
	}
	return slices.IsSorted(s.running)
}

// server reads a snapshot as PostgreSQL writes it: xmin:xmax:running,running.
func (s *snapshot) server(text string) error {
	parts := strings.Split(text, ":")
	if len(parts) != 3 || !s.read(parts[1], parts[2]) {
		return fmt.Errorf("%q is not a snapshot", text)
	}
	return nil
}

func joined(xids []int64) string {
	text := make([]string, len(xids))
	for i, x := range xids {
		text[i] = decimal(x)
	}
	return strings.Join(text, ",")
}

// behind is the condition of an event e that the snapshot does not show. Its first part is there for
// the index.
func (s snapshot) behind(args []any) (string, []any) {
	lowest := s.max
	if len(s.running) > 0 {
		lowest = s.running[0]
	}
	return `(e.place >= ? AND (e.place >= ? OR e.place = ANY (CAST(? AS bigint[]))))`, append(args, lowest, s.max, "{"+joined(s.running)+"}")
}

// shown is the condition of an event e that the snapshot shows.
func (s snapshot) shown(args []any) (string, []any) {
	return `(e.place < ? AND e.place <> ALL (CAST(? AS bigint[])))`, append(args, s.max, "{"+joined(s.running)+"}")
}

// until is what is seen once everything below a transaction was looked at.
func (s snapshot) until(cut int64, look snapshot) snapshot {
	next := snapshot{max: max(s.max, cut)}
	running := look.running
	if s.max > cut {
		running = nil
		for _, x := range s.running {
			if x >= cut || slices.Contains(look.running, x) {
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
