package sqlite

import (
	"context"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// Deviation is a table that is kept beside the history and that is not what it is made from.
type Deviation = ledger.Deviation

// listedWrongly selects rows of the list that are not as they should be.
func listedWrongly() string {
	return `
		SELECT h.seq FROM open_operations h LEFT JOIN open_source s ON s.seq = h.seq
		 WHERE (h.search, ` + tables.ListColumns("h.") + `) IS NOT (` + tables.SearchOf("h") + `, ` + tables.ListColumns("s.") + `)`
}

// What each derived table should be.
const (
	shouldBeListed = `
		SELECT seq FROM operations WHERE is_open = 1
		UNION SELECT o.seq FROM grants g JOIN operations o ON o.id = g.operation_id WHERE g.consumed_at = 0 AND g.voided_at = 0`

	shouldBeSummed = `
		SELECT kind, state AS what, '' AS class, count(*) AS n FROM operations GROUP BY 1, 2
		UNION ALL
		SELECT o.kind, CASE e.to_state WHEN 'committed' THEN 'landed' ELSE 'missed' END, e.doubt, count(*)
		  FROM events e JOIN operations o ON o.id = e.operation_id
		 WHERE e.doubt IS NOT NULL GROUP BY 1, 2, 3`
)

// deviating names the rows of each derived table that are not as they should be.
var deviating = []struct{ table, rows string }{
	{"open_operations", `
		SELECT coalesce(o.id, w.seq) FROM (
			SELECT seq FROM (` + shouldBeListed + `) WHERE seq NOT IN (SELECT seq FROM open_operations)
			UNION SELECT seq FROM open_operations WHERE state <> 'pending' AND seq NOT IN (` + shouldBeListed + `)
			UNION SELECT seq FROM listed_wrongly) w LEFT JOIN operations o ON o.seq = w.seq`},
	{"total", `
		SELECT coalesce(d.kind, t.kind) || ' ' || coalesce(d.what, t.what)
		  FROM totals t FULL JOIN (` + shouldBeSummed + `) d ON (d.kind, d.what, d.class) = (t.kind, t.what, t.class)
		 WHERE coalesce(t.n, 0) <> coalesce(d.n, 0)`},
}

// Deviations compares every derived table with what it is made from, all in one
// state of the ledger. It reads all of it, which takes seconds where there is much.
func (s *Store) Deviations(ctx context.Context) ([]Deviation, error) {
	n, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer n.close()
	var out []Deviation
	for _, of := range deviating {
		found, err := tables.Collect(n, func(rows tables.Rows) (d Deviation, err error) {
			d.Table = of.table
			return d, rows.Scan(&d.Rows, &d.One)
		}, `WITH listed_wrongly (seq) AS (`+listedWrongly()+`), wrong (row) AS (`+of.rows+`) SELECT count(*), coalesce(min(row), '') FROM wrong`)
		if err != nil {
			return nil, translate(s.path, fmt.Errorf("compare %s: %w", of.table, err))
		}
		for _, d := range found {
			if d.Rows > 0 {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

// Rebuild makes every derived table what it should be, in one transaction. What
// policies have said of a row that stays is kept.
func (s *Store) Rebuild(ctx context.Context) error {
	return s.write(ctx, func(tx *tx) error {
		for _, query := range []string{
			`DELETE FROM open_operations WHERE state <> 'pending' AND seq NOT IN (` + shouldBeListed + `)`,
			`DELETE FROM open_operations WHERE seq NOT IN (SELECT seq FROM operations)`,
			`UPDATE open_operations SET digest = '', (search, ` + tables.ListColumns("") + `) =
			   (SELECT ` + tables.SearchOf("open_operations") + `, ` + tables.ListColumns("s.") + ` FROM open_source s WHERE s.seq = open_operations.seq)
			  WHERE seq IN (` + listedWrongly() + `)`,
			tables.ListNew + ` WHERE s.seq IN (` + shouldBeListed + `) AND s.seq NOT IN (SELECT seq FROM open_operations)`,

			`DELETE FROM total`, // it is made again from the beginning
		} {
			if err := tx.script(query); err != nil {
				return fmt.Errorf("rebuild what is derived: %s: %w", strings.Fields(query)[2], err)
			}
		}
		return nil
	})
}
