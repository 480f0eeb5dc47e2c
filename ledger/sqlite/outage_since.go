package sqlite

import (
	"context"
	"slices"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// outagesSince names outages after ?1, and says in a row with none how many of
// ?2 events it read.
const outagesSince = `
	WITH e AS MATERIALIZED (SELECT operation_id, outage FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2+0)
	SELECT outage, 0 FROM e WHERE outage <> ''
	UNION SELECT i.id, 0 FROM e CROSS JOIN operations o ON o.id = e.operation_id ` + tables.TheirOutages + `
	UNION SELECT '', count(*) FROM e`

// OutagesSince names the outages that something was written about.
func (s *Store) OutagesSince(ctx context.Context, after ledger.Cursor, limit int) ([]string, bool, error) {
	since, err := after.Number()
	if err != nil {
		return nil, false, err
	}
	n := 0
	ids, err := tables.Gather(ctx, database{s.handle}, func(rows tables.Rows) (id string, err error) {
		var events int
		err = rows.Scan(&id, &events)
		n = max(n, events)
		return id, err
	}, outagesSince, since, limit+1)
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	return ids, n <= limit, err
}
