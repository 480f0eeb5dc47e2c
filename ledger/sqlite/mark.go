package sqlite

import (
	"fmt"
	"os"
)

// The history of a ledger only grows, and so do the numbers of its events. Beside the ledger
// stands the newest that was recorded here, which came there after the commit: a file that ends
// before it is an older state of the ledger that something has put back, without what was sent
// since. It has the same inode and looks at home, and would have all that sent again. A
// ledger that is adopted gets another id, and the mark of the former one says nothing of it.

// markAt is where the mark begins in the side file, behind the byte of the notifier.
const (
	markAt     = 1
	markFormat = "%-36s %019d\n"
	markSize   = 36 + 1 + 19 + 1
)

// marked is the newest event that was recorded here as the side file has it, 0 where that says nothing.
func (s *handle) marked() (seq int64) {
	f, err := openSide(s.path, ".bell", os.O_RDONLY)
	if err != nil {
		return 0
	}
	defer f.Close()
	var text [markSize]byte
	var id string
	if _, err := f.ReadAt(text[:], markAt); err != nil {
		return 0
	}
	if _, err := fmt.Sscanf(string(text[:]), "%36s %d", &id, &seq); err != nil || id != s.id {
		return 0
	}
	return seq
}

// state is how far a ledger has come.
type state struct {
	id   string
	last int64 // event
}

const stateNow = `SELECT coalesce((SELECT value FROM meta WHERE name = 'id'), ''), coalesce((SELECT max(seq) FROM ev), 0)`

// rolledBack refuses a ledger that has become an older state of itself, or another one, while
// it is open: known is the newest event that this process had seen before it looked.
func (s *handle) rolledBack(now state, known int64) error {
	switch {
	case s.id == "" || s.copied != "": // it is being made, or adopted
		return nil
	case now.id != s.id:
		return gone(s.path, "is another ledger now", "bring the old one back, or start again with the one that is there now")
	case now.last < known:
		return gone(s.path, "is an older state of itself now: "+shorter(now.last, known),
			"bring the newest state back; where it is lost, end what has this one open, then `indoubt adopt`")
	}
	s.saw(now.last)
	return nil
}

// shorter says how a history that ends with the event last is shorter than what was recorded.
func shorter(last, known int64) string {
	return fmt.Sprintf("it ends with change %d, and change %d was recorded here", last, known)
}

// saw remembers the newest event that was seen.
func (s *handle) saw(last int64) {
	for known := s.newest.Load(); last > known && !s.newest.CompareAndSwap(known, last); {
		known = s.newest.Load()
	}
}

// state reads it in the transaction that has begun. Of a ledger that is being made it is none.
func (w *writer) state() (now state, err error) {
	if w.store.id == "" {
		return now, nil
	}
	return now, one(&tx{w: w}, stateNow, &now.id, &now.last)
}

// unbroken asks whether the ledger is the one that this process knows.
func (w *writer) unbroken() error {
	now, err := w.state()
	if err != nil {
		return err
	}
	return w.store.rolledBack(now, w.store.newest.Load())
}
