package sqlite

import (
	"context"
	"math"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// Follow returns what was written after the cursor, oldest first.
func (s *Store) Follow(ctx context.Context, after ledger.Cursor, limit int) ([]ledger.Event, ledger.Cursor, error) {
	events, err := s.History(ctx, ledger.HistoryQuery{Since: after, Limit: limit})
	if n := len(events); n > 0 {
		after = ledger.NumberCursor(events[n-1].Seq)
	}
	return events, after, err
}

// History returns events in the order of their Seq. One writer at a time gives the
// numbers, so they are an order of commits, too.
func (s *handle) History(ctx context.Context, q ledger.HistoryQuery) ([]ledger.Event, error) {
	query, args, err := historyQuery(q)
	if err != nil {
		return nil, err
	}
	return tables.Gather(ctx, database{s}, scanEvent, query, args...)
}

func scanEvent(rows tables.Rows) (ledger.Event, error) { return tables.ScanEvent(rows) }

func historyQuery(q ledger.HistoryQuery) (query string, args []any, err error) {
	since, err := q.Since.Number()
	if err != nil {
		return "", nil, err
	}
	last := int64(math.MaxInt64)
	if q.Until != "" {
		if last, err = q.Until.Number(); err != nil {
			return "", nil, err
		}
	}
	if q.Before > 0 {
		last = min(last, q.Before-1)
	}
	query, args = `SELECT `+tables.EventColumns+` FROM events WHERE seq > ? AND seq <= ?`, []any{since, last}
	of, ids := tables.OfOperations(q)
	query, args = query+of, append(args, ids...)
	query += ` ORDER BY seq`
	if q.Newest {
		query += ` DESC`
	}
	return query + ` LIMIT ?+0`, append(args, q.Limit), nil
}
