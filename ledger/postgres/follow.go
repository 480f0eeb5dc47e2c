package postgres

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// Numbers of events are given before their transactions end, so a place in the feed is a snapshot:
// which transactions had ended. A page holds whole transactions, so it may be longer than asked for. It is
// shorter only where nothing more had come into view.

// Follow returns what came into view after the cursor, in the order of transactions. On a standby
// that is what had ended when it was looked at first.
func (s *Store) Follow(ctx context.Context, after ledger.Cursor, limit int) (events []ledger.Event, next ledger.Cursor, err error) {
	seen, err := snapshotOf(after)
	if err != nil {
		return nil, after, err
	}
	var found []int64
	var look snapshot
	err = s.looked(ctx, seen, func(tx store.Tx, now snapshot) (err error) {
		look, seen = now, seen.in(now.system)
		where, args := seen.behind(nil)
		shown, args := look.shown(args)
		ask := func(more string, args ...any) (err error) {
			where := where + ` AND ` + shown + ` AND e.verb <> 'look'` + more
			store.Ahead(tx, store.EventsQuery(where), args...)
			found, err = store.Collect(tx, func(rows store.Rows) (at int64, err error) { return at, rows.Scan(&at) },
				`SELECT e.place FROM ev e WHERE `+where, args...)
			if err == nil {
				events, err = store.EventsOf(tx, where, args...)
			}
			return err
		}
		if err := ask(` ORDER BY e.place, e.seq LIMIT ?`, append(args, limit+1)...); err != nil || len(found) <= limit {
			return err
		}
		cut := found[limit]
		if events = events[:limit]; found[limit-1] == cut { // its last transaction has more
			err = ask(` AND e.place <= ?`, append(args, cut)...)
			cut++
		}
		look = seen.until(cut, look)
		return err
	})
	slices.SortFunc(events, func(a, b ledger.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	if !s.meta.has("standby") { // which can be ahead of its primary by a moment
		s.Saw(events)
	}
	return events, look.cursor(), err
}

// looked reads what had ended, behind a place: a standby does not list what runs on its primary, so it
// is asked of each transaction before anything is read. In another system than the ledger is at home in,
// numbers of transactions say nothing yet, and there is no news.
func (s *Store) looked(ctx context.Context, seen snapshot, read func(store.Tx, snapshot) error) error {
	var now snapshot
	standby := false
	look := func(tx store.Tx) error {
		var text, here, home string
		var timeline int64
		if err := store.One(tx, []any{&standby, &text, &here, &home, &timeline}, `SELECT pg_is_in_recovery(), CAST(pg_current_snapshot() AS text), coalesce(indoubt.home(), ''),
			coalesce((SELECT value FROM meta WHERE name = 'home'), ''), coalesce((SELECT place >> 40 FROM ev ORDER BY place DESC LIMIT 1), 0)`); err != nil {
			return err
		}
		now.system, _, _ = strings.Cut(home, ".")
		if !standby {
			system, line, _ := strings.Cut(here, ".")
			line, _, _ = strings.Cut(line, ".")
			if system != now.system {
				now = snapshot{system: now.system, max: seen.max, running: seen.running, foreign: true}
				return nil
			}
			timeline, _ = strconv.ParseInt(line, 16, 64)
		}
		if err := now.server(text, timeline); err != nil || !standby {
			return err
		}
		return now.ended(tx, seen.in(now.system), timeline<<40)
	}
	err := database{s.handle}.View(ctx, func(tx store.Tx) error {
		if err := look(tx); err != nil || standby {
			return err
		}
		return read(tx, now)
	})
	if err != nil || !standby {
		return err
	}
	return database{s.handle}.View(ctx, func(tx store.Tx) error { return read(tx, now) })
}

// ended asks of the transactions that were not seen to have ended which of them run. Those below the
// oldest that runs have all ended.
func (s *snapshot) ended(tx store.Tx, seen snapshot, timeline int64) error {
	s.running = nil
	var ran []int64
	for _, x := range seen.running {
		ran = append(ran, max(0, x-timeline))
	}
	_, err := store.Collect(tx, func(rows store.Rows) (none struct{}, err error) {
		var x, high int64
		var runs bool
		if err = rows.Scan(&x, &high, &runs); runs {
			s.running = append(s.running, x+timeline)
		}
		s.max = high + timeline
		return none, err
	}, `WITH now AS MATERIALIZED (SELECT CAST(CAST(pg_snapshot_xmin(s) AS text) AS bigint) AS low, CAST(CAST(pg_snapshot_xmax(s) AS text) AS bigint) AS high
			FROM pg_current_snapshot() s),
		waits AS (SELECT x FROM unnest(CAST(? AS bigint[])) x, now WHERE x >= low UNION SELECT x FROM now, generate_series(greatest(low, ?), high - 1) x)
		SELECT coalesce(x, 0), high, x IS NOT NULL FROM now LEFT JOIN waits ON pg_xact_status(CAST(CAST(x AS text) AS xid8)) = 'in progress' ORDER BY x`,
		"{"+joined(ran)+"}", max(0, seen.max-timeline))
	return err
}

// here is the place behind all that can be seen now.
func (s *Store) here(ctx context.Context) (at ledger.Cursor, err error) {
	err = s.looked(ctx, beginning, func(_ store.Tx, now snapshot) error {
		if now.foreign {
			now.max = 1 << 62
		}
		at = now.cursor()
		return nil
	})
	return at, err
}

// History returns events in the order of their numbers.
func (s *Store) History(ctx context.Context, q ledger.HistoryQuery) ([]ledger.Event, error) {
	since, err1 := snapshotOf(q.Since)
	until, err2 := snapshotOf(q.Until)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	where, args := since.behind(nil)
	if q.Until != "" {
		var shown string
		shown, args = until.shown(args)
		where += ` AND ` + shown
	}
	return store.Events(ctx, database{s.handle}, q, where, args...)
}

// OutagesSince names the outages that the first events behind the cursor are about.
func (s *Store) OutagesSince(ctx context.Context, after ledger.Cursor, limit int) (ids []string, all bool, err error) {
	events, _, err := s.Follow(ctx, after, limit+1)
	if err != nil {
		return nil, false, err
	}
	ids, err = s.Concerned(ctx, events[:min(limit, len(events))])
	return ids, len(events) <= limit, err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
