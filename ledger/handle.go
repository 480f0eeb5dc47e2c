package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Handle is what a begin gives to who sends: the attempt, and the change id that began it,
// which no answer to others shows. Who has it may settle that attempt.
type Handle struct {
	Operation string
	N         int
	Change    string
}

// String is the handle in one word; "" is that of none.
func (h Handle) String() string {
	if h.Change == "" {
		return ""
	}
	return fmt.Sprintf("%s.%d.%s", h.Operation, h.N, h.Change)
}

// ParseHandle reads a handle. Errors: a sentence that says what it lacks.
func ParseHandle(s string) (h Handle, err error) {
	rest, change := cutLast(strings.TrimSpace(s))
	id, n := cutLast(rest)
	h = Handle{Operation: id, Change: change}
	if h.N, err = strconv.Atoi(n); err != nil || id == "" || uuid.Validate(change) != nil {
		return Handle{}, fmt.Errorf("`%s` is no whole handle, "+
			"which is an operation, the number of its attempt and a secret, with dots between", s)
	}
	return h, nil
}

// cutLast takes the last part off.
func cutLast(s string) (before, last string) {
	i := strings.LastIndexByte(s, '.')
	return s[:max(i, 0)], s[i+1:]
}

// Attempt finds the attempt of a handle. Errors: ErrNotFound where this ledger has no such
// operation; *RefusedError where the handle is not the one that its begin gave.
func (h Handle) Attempt(ctx context.Context, s interface {
	Reader
	Feed
}) (Attempt, error) {
	rec, err := s.Read(ctx, Locator{ID: h.Operation})
	if err != nil {
		return Attempt{}, err
	}
	if rec.Operation.ID != h.Operation { // it was found by a part of its id
		return Attempt{}, ErrNotFound
	}
	if rec.Operation.Moved != "" && h.N == 1 { // its begin, too
		return rec.Attempts[0], nil
	}
	events, err := s.History(ctx, HistoryQuery{Operation: h.Operation, Newest: true, Limit: math.MaxInt32})
	for _, e := range events {
		var of struct{ Attempt string }
		if e.ID != h.Change || e.Verb != "begin" || json.Unmarshal(e.Detail, &of) != nil {
			continue
		}
		if a := rec.Attempt(of.Attempt); a != nil && a.N == h.N {
			return *a, nil
		}
	}
	if err == nil {
		err = &RefusedError{Verb: "settle",
			Why:  fmt.Sprintf("this is not the handle that the begin of attempt %d of %s gave", h.N, h.Operation),
			Hint: "pass on the word that `indoubt begin` printed, whole"}
	}
	return Attempt{}, err
}

// PublicID is what others are shown as the id of an event. That of a begin is part of a
// handle, so another one stands for it.
func (e Event) PublicID() string {
	if e.Verb == "begin" {
		return DeriveID(e.ID, "shown")
	}
	return e.ID
}
