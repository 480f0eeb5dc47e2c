package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"indoubt/ledger"
)

// Sums of the history are kept up to an event, in total. A reader adds what came after it.

// foldFrom is after how many events who leads adds them to the sums, and foldMost how many at once.
const foldFrom, foldMost = 100, 20_000

// what is summed up: operations of a kind in a state, or of those whose doubt of a class evidence ended
// how many landed or did not. At the place the rest is empty.
type what struct{ what, kind, class string }

// place is the event that the sums have come to.
const place, landed, missed = "seq", "landed", "missed"

// sums are those of total, with what came after them.
type sums struct {
	n      map[what]int
	moved  []what // by what came after
	behind int64  // how many events came after
}

const totalQuery = `SELECT what, n FROM total`

// sumsOf are the sums as far as they have come, and at most so many events farther.
func sumsOf(tx Tx, most int64) (s sums, err error) {
	s.n = map[what]int{}
	if _, err = Collect(tx, func(rows Rows) (none struct{}, err error) {
		var text string
		var n int
		err = rows.Scan(&text, &n)
		of := append(unlist(text), "", "", "")
		s.n[what{of[0], of[1], of[2]}] = n
		return none, err
	}, totalQuery); err != nil {
		return s, err
	}
	from, last := int64(s.n[what{place, "", ""}]), int64(math.MaxInt64)
	if most < last { // as far as nothing can come between any more
		if last, s.behind, err = s.upTo(tx, what{place, "", ""}, most); err != nil {
			return s, err
		}
	}
	add := func(w what, n int) {
		s.n[w] += n
		s.moved = append(s.moved, w)
	}
	add(what{place, "", ""}, int(last-from))
	_, err = Collect(tx, func(rows Rows) (none struct{}, err error) {
		var kind, before, state, class string
		var doubt bool
		var n int
		err = rows.Scan(&kind, &before, &state, &doubt, &class, &n)
		add(what{state, kind, ""}, n)
		if before != "" {
			add(what{before, kind, ""}, -n)
		}
		if doubt {
			add(what{map[bool]string{true: landed, false: missed}[state == string(ledger.Committed)], kind, class}, n)
		}
		return none, err
	}, newerQuery, placeName, last)
	return s, err
}

// newerQuery sums up what came after the sums, up to a place.
const newerQuery = `SELECT o.kind, e.before, e.state, e.facts ->> 'doubt' IS NOT NULL, coalesce(e.facts ->> 'doubt', ''), count(*)
	FROM ev e CROSS JOIN op o ON o.seq = e.op
	WHERE {place} > coalesce((SELECT n FROM total WHERE what = ?), 0) AND {place} <= ? AND e.before <> e.state GROUP BY 1, 2, 3, 4, 5`

// placeName is the name of the place that the sums have come to.
var placeName = string(list([]string{place, "", ""}))

// upTo is how far history goes on from a place before which nothing can come any more, and how many events that are.
func (s sums) upTo(tx Tx, of what, most int64) (last, n int64, err error) {
	from := s.n[of]
	err = One(tx, []any{&last, &n}, `SELECT coalesce(max(few.at), ?), count(*) FROM (SELECT {place} AS at FROM ev e
		WHERE {place} > ? AND {place} <= {ended} ORDER BY 1 LIMIT ?) AS few`, from, from, most)
	return last, n, err
}

// save has the table come as far.
func (s sums) save(tx Tx) error {
	for _, w := range s.moved {
		if err := exec(tx, `INSERT INTO total (what, n) VALUES (?, ?) ON CONFLICT (what) DO UPDATE SET n = excluded.n`,
			string(list([]string{w.what, w.kind, w.class})), s.n[w]); err != nil {
			return err
		}
	}
	return nil
}

// sumUp has the sums come as far as they can.
func sumUp(ctx context.Context, db Database) (err error) {
	for more := true; more && err == nil; {
		err = db.Update(ctx, func(tx Tx) error {
			sums, err := sumsOf(tx, foldMost)
			more = sums.behind == foldMost
			return errors.Join(err, sums.save(tx))
		})
	}
	return err
}

const flyingQuery = `SELECT o.kind, ` + overdue + `, count(*), min(CASE WHEN ` + overdue + ` THEN o.deadline_at ELSE o.begun_at END)
	FROM op o WHERE ` + inFlight + ` GROUP BY 1, 2`

// states is how many operations of a kind stand where at now, with the oldest where that is asked for. A
// deadline that passed is not in the history yet.
func (s sums) states(tx Tx, now time.Time, oldest bool) (map[what]ledger.StateCount, error) {
	out := map[what]ledger.StateCount{}
	put := func(kind string, state ledger.State, n int, since int64) {
		w := what{string(state), kind, ""}
		c := out[w]
		if t := at(since); c.Oldest.IsZero() || !t.IsZero() && t.Before(c.Oldest) {
			c.Oldest = t
		}
		out[w] = ledger.StateCount{Kind: kind, State: state, Count: c.Count + n, Oldest: c.Oldest}
	}
	for w, n := range s.n {
		if w.kind != "" && w.what != landed && w.what != missed {
			put(w.kind, ledger.State(w.what), n, 0)
		}
	}
	_, err := Collect(tx, func(rows Rows) (none struct{}, err error) {
		var kind string
		var n int
		var late bool
		var since int64
		if err = rows.Scan(&kind, &late, &n, &since); late {
			put(kind, ledger.Pending, -n, 0)
			put(kind, ledger.Uncertain, n, since)
		} else {
			put(kind, ledger.Pending, 0, since)
		}
		return none, err
	}, flyingQuery, millis(now))
	if err != nil || !oldest {
		return out, err
	}
	_, err = Collect(tx, func(rows Rows) (none struct{}, err error) {
		var kind string
		var since int64
		err = rows.Scan(&kind, &since)
		put(kind, ledger.Uncertain, 0, since)
		return none, err
	}, `SELECT o.kind, coalesce(min(nullif(o.doubted_at, 0)), 0) FROM op o {by op_open}
		WHERE `+inOpen+` AND o.state = 'uncertain' AND o.abandoned = 0 GROUP BY 1`)
	return out, err
}

// StateCounts counts operations by kind and state at now.
func (s *Store) StateCounts(ctx context.Context, now time.Time) (out []ledger.StateCount, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		sums, err := sumsOf(tx, math.MaxInt64)
		if err != nil {
			return err
		}
		all, err := sums.states(tx, now, true)
		for _, c := range all {
			if c.Count > 0 {
				out = append(out, c)
			}
		}
		return err
	})
	order := []ledger.State{ledger.Pending, ledger.Uncertain, ledger.Committed, ledger.Failed, ledger.Abandoned}
	slices.SortFunc(out, func(a, b ledger.StateCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), slices.Index(order, a.State)-slices.Index(order, b.State))
	})
	return out, err
}

// kinds are those of which there are operations.
func (s sums) kinds() (kinds []string) {
	for w := range s.n {
		if w.kind != "" {
			kinds = append(kinds, w.kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// DoubtCounts counts how doubts ended, where evidence ended them.
func (s *Store) DoubtCounts(ctx context.Context) (out []ledger.DoubtCount, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		sums, err := sumsOf(tx, math.MaxInt64)
		of := map[what]ledger.DoubtCount{}
		for w, n := range sums.n {
			if w.what != landed && w.what != missed {
				continue
			}
			one := what{"", w.kind, w.class}
			c := of[one]
			c.Kind, c.Class = w.kind, ledger.ErrorClass(w.class)
			if w.what == landed {
				c.Landed += n
			} else {
				c.Missed += n
			}
			of[one] = c
		}
		out = slices.SortedFunc(maps.Values(of), func(a, b ledger.DoubtCount) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Class, b.Class))
		})
		return err
	})
	return out, err
}
