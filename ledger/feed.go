package ledger

import (
	"fmt"
	"strconv"
)

// Cursor is a follower's place in the history. What it says is known to the kind of
// store that gave it: numbers are given to events before their transactions end, so a
// number alone says of no event whether it was seen. "" and "0" are the beginning.
type Cursor string

// HistoryQuery says which events are wanted.
type HistoryQuery struct {
	Operation string   // only of this operation; "": of the whole ledger
	Among     []string // only of these operations; nil: of all
	Since     Cursor   // only what a follower at this place has not seen
	Until     Cursor   // only what a follower at this place has seen; "": everything
	Before    int64    // only Seq < Before, for the next page of the newest; 0: from the end
	Newest    bool     // the newest come first
	Limit     int
}

// CursorError says that a text is no place in the history of this ledger.
type CursorError struct{ Cursor Cursor }

func (e *CursorError) Error() string {
	return fmt.Sprintf("%q is not a place in the history of this ledger", string(e.Cursor))
}

// NumberCursor is the cursor behind an event, in a store where events come into view in
// the order of their Seq.
func NumberCursor(seq int64) Cursor { return Cursor(strconv.FormatInt(seq, 10)) }

// Number is the Seq that a NumberCursor was made of. Errors: *CursorError.
func (c Cursor) Number() (int64, error) {
	if c == "" {
		return 0, nil
	}
	seq, err := strconv.ParseInt(string(c), 10, 64)
	if err != nil || seq < 0 || NumberCursor(seq) != c {
		return 0, &CursorError{c}
	}
	return seq, nil
}
