package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"indoubt/ledger"
)

// snapshot says which transactions had ended: those below max, but for those that ran. They are numbered
// as the places of events are, with the timeline of the log before them.
type snapshot struct {
	system  string
	foreign bool // the ledger is not at home in the system
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
	parts := strings.Split(string(c), ":")
	if len(parts) == 3 {
		s.system = parts[0]
		if s.read(parts[1], parts[2]) && s.cursor() == c {
			return s, nil
		}
	}
	return s, &ledger.CursorError{Cursor: c}
}

func (s snapshot) cursor() ledger.Cursor {
	if s.max <= beginning.max {
		return "0"
	}
	return ledger.Cursor(s.system + ":" + decimal(s.max) + ":" + joined(s.running))
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
func (s *snapshot) server(text string, timeline int64) error {
	parts := strings.Split(text, ":")
	if len(parts) != 3 || !s.read(parts[1], parts[2]) {
		return fmt.Errorf("%q is not a snapshot", text)
	}
	s.max += timeline << 40
	for i := range s.running {
		s.running[i] += timeline << 40
	}
	return nil
}

// in is what was seen, as it is in a system. What another system had seen is below all that is told in this
// one since it was adopted there.
func (s snapshot) in(system string) snapshot {
	if s.system != "" && s.system != system {
		s = snapshot{max: adopted + 1}
	}
	return s
}

// adopted is the place of what was told in another system.
const adopted = 3

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
	next := snapshot{system: look.system, max: max(s.max, cut)}
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
