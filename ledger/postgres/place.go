package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// snapshot says which transactions had ended: those below max, but for those that ran.
type snapshot struct {
	max     uint64
	running []uint64 // ascending, all below max
}

// beginning is before all transactions.
var beginning = snapshot{max: 1}

// place is what a cursor says: what has been seen. Numbers of events are given before
// their transactions end, and numbers of transactions, too, so neither is a place.
type place struct {
	line string // the lineage that it is of: its numbers say nothing in another one; "": the beginning
	seen snapshot
	// Where a page was cut: what the look saw that it is a part of, and the last event of
	// the page in the order of transactions and, in each, of numbers.
	cut  bool
	look snapshot
	xid  uint64
	seq  int64
}

var cursorShape = lazyregexp.New(`^([0-9A-F.]+)@(\d+):((?:\d+(?:,\d+)*)?)(?:/(\d+):((?:\d+(?:,\d+)*)?)/(\d+)\.(\d+))?$`)

// placeOf reads a cursor. Error: *ledger.CursorError.
func placeOf(c ledger.Cursor) (p place, err error) {
	if c == "" || c == "0" {
		return place{seen: beginning}, nil
	}
	m := cursorShape.FindStringSubmatch(string(c))
	if m == nil {
		return p, &ledger.CursorError{Cursor: c}
	}
	p.line = m[1]
	ok := p.seen.read(m[2], m[3])
	if p.cut = m[4] != ""; p.cut {
		var err1, err2 error
		ok = p.look.read(m[4], m[5]) && ok
		p.xid, err1 = strconv.ParseUint(m[6], 10, 64)
		p.seq, err2 = strconv.ParseInt(m[7], 10, 64)
		ok = ok && err1 == nil && err2 == nil
	}
	if !ok || p.cursor() != c {
		return p, &ledger.CursorError{Cursor: c}
	}
	return p, nil
}

func (s *snapshot) read(last, running string) bool {
	var err error
	if s.max, err = strconv.ParseUint(last, 10, 64); err != nil || s.max == 0 {
		return false
	}
	s.running = nil
	for n := range strings.SplitSeq(running, ",") {
		if n == "" {
			continue
		}
		xid, err := strconv.ParseUint(n, 10, 64)
		if err != nil || xid >= s.max {
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

func (s snapshot) String() string {
	return fmt.Sprintf("%d:%s", s.max, list(s.running))
}

func list(xids []uint64) string {
	text := make([]string, len(xids))
	for i, x := range xids {
		text[i] = strconv.FormatUint(x, 10)
	}
	return strings.Join(text, ",")
}

func (p place) cursor() ledger.Cursor {
	if !p.cut {
		if p.seen.max == beginning.max {
			return "0"
		}
		return ledger.Cursor(p.line + "@" + p.seen.String())
	}
	return ledger.Cursor(fmt.Sprintf("%s@%s/%s/%d.%d", p.line, p.seen, p.look, p.xid, p.seq))
}

// from is the place in a lineage whose own transactions begin with this one: what was seen
// of others from there on is lost, and what is there now has not been seen.
func (p place) from(line string, xid uint64) place {
	p.line, p.seen, p.look = line, p.seen.below(xid), p.look.below(xid)
	return p
}

func (s snapshot) below(xid uint64) snapshot {
	s.max = min(s.max, xid)
	s.running = slices.DeleteFunc(slices.Clone(s.running), func(x uint64) bool { return x >= xid })
	return s
}

// unseen is the condition of an event that the snapshot does not show. Its first part
// is there for the index: a bound from which on events are looked at.
func (s snapshot) unseen(args []any) (string, []any) {
	lowest := s.max
	if len(s.running) > 0 {
		lowest = s.running[0]
	}
	return `(xid >= CAST(? AS xid8) AND (xid >= CAST(? AS xid8) OR xid = ANY (CAST(? AS xid8[]))))`,
		append(args, fmt.Sprint(lowest), fmt.Sprint(s.max), "{"+list(s.running)+"}")
}

// shown is the condition of an event that the snapshot shows.
func (s snapshot) shown(args []any) (string, []any) {
	return `(xid < CAST(? AS xid8) AND xid <> ALL (CAST(? AS xid8[])))`, append(args, fmt.Sprint(s.max), "{"+list(s.running)+"}")
}

// unseen is the condition of an event that is behind the place.
func (p place) unseen(args []any) (where string, _ []any) {
	if where, args = p.seen.unseen(args); !p.cut {
		return where, args
	}
	look, args := p.look.shown(args)
	return where + ` AND NOT (` + look + ` AND (xid, seq) <= (CAST(? AS xid8), CAST(? AS bigint)))`, append(args, fmt.Sprint(p.xid), p.seq)
}
