package tables

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"indoubt/ledger"
)

// passing is how long something must have been in flight to be worth a price.
const passing = time.Second

// Unpriced returns open operations whose derived columns are of another policy
// or of an older version of the operation, newest first: the oldest are read
// first, which prices them too. Those in flight come last, and only when they
// stay there.
func (s *Store) Unpriced(ctx context.Context, digest string, limit int) ([]ledger.Operation, error) {
	now, err := s.db.Moment(ctx)
	if err != nil {
		return nil, err
	}
	return Gather(ctx, s.db, scanOperation, `
		SELECT `+operationColumns+`
		  FROM (SELECT * FROM (SELECT seq FROM open_operations INDEXED BY open_by_digest WHERE digest < ?1 AND class <> 'pending'
		                        ORDER BY digest DESC, seq DESC LIMIT ?2+0) AS older
		        UNION ALL
		        SELECT * FROM (SELECT seq FROM open_operations INDEXED BY open_by_digest WHERE digest > ?1 AND class <> 'pending'
		                        ORDER BY digest DESC, seq DESC LIMIT ?2+0) AS newer
		        UNION ALL
		        SELECT o.seq FROM `+flightFrom+` AND o.started_at < ?3 AND (h.seq IS NULL OR h.digest <> ?1)
		        LIMIT ?2+0) h
		  CROSS JOIN operations o ON o.seq = h.seq`, digest, limit, Millis(now.Wall.Add(-passing)))
}

func scanOperation(rows Rows) (ledger.Operation, error) {
	s := scan[ledger.Operation]{columns: columns}
	err := rows.Scan(s.dest(nil)...)
	return s.row(), err
}

// Beside goes from each operation t by the index of its target to operations o that are in
// doubt and that it overtakes: the newest before it.
func (s *Store) Beside(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return Gather(ctx, s.db, word, beside, list(ids))
}

var beside = fmt.Sprintf(`
	SELECT DISTINCT o.id FROM json_each(?1) p CROSS JOIN operations t ON t.id = p.value CROSS JOIN operations o ON o.target = t.target AND o.target <> ''
	   AND o.started_at >= coalesce((SELECT c.started_at FROM operations c
	        WHERE c.target = t.target AND c.target <> '' AND c.started_at <= t.started_at ORDER BY c.started_at DESC LIMIT 1 OFFSET %d), 0)
	 WHERE o.state = 'uncertain' AND %s`, relations, later)

// Price writes what a policy says beside open operations. Those that have moved since are
// passed over.
func (s *Store) Price(ctx context.Context, prices []ledger.Pricing) error {
	if len(prices) == 0 {
		return s.db.Writable()
	}
	return s.update(ctx, func(tx *tx) error {
		ids := ledger.Each(prices, func(p ledger.Pricing) string { return p.OperationID })
		if err := tx.lockAll(ids); err != nil {
			return err
		}
		now := Millis(tx.now())
		for _, p := range prices {
			if err := tx.price(p, now, ledger.Operation{ID: p.OperationID}, false); err != nil {
				return err
			}
		}
		return nil
	})
}

// price writes a price beside operation o. A fresh one is not in the list yet. One that
// has its names keeps them without a statement, which would set off triggers and takes
// long to prepare.
func (tx *tx) price(p ledger.Pricing, now int64, o ledger.Operation, fresh bool) (err error) {
	args := []any{
		p.Digest, p.Downstream, p.Title, p.Target,
		finite(p.Duplicate.Value), p.Duplicate.Word, flag(p.Duplicate.Guess), finite(p.Miss.Value), p.Miss.Word, flag(p.Miss.Guess),
		finite(p.Odds), finite(p.Rank), Millis(p.DecideAt), Millis(p.ReadAt), p.Reads, flag(Millis(p.DecideAt) <= now), p.OperationID, p.Version,
	}
	n := int64(1)
	switch {
	case fresh:
		err = tx.Later(listFlying, args...)
	case o.State == ledger.Uncertain && p.Version == o.Version: // as it was just written: it is in the list
		err = tx.Later(reprice, args...)
	case tx.d.Far: // each of them changes nothing where another one does
		err = cmp.Or(tx.Later(reprice, args...), tx.Later(listFlying, args...))
	default:
		n, err = tx.Exec(reprice, args...)
		if err == nil && n == 0 { // it has moved or left the list, or is in flight and was not worth a price before
			n, err = tx.Exec(listFlying, args...)
		}
	}
	if err != nil || n == 0 || (p.Title == "" || o.Title != "") && (p.Target == "" || ledger.NamedTarget(o.Target) != "") {
		return err
	}
	// A writer in plain SQL, or without a policy, names nothing: the policy's words stay with
	// the operation when it has left the list, and tell what it overtakes.
	return tx.Later(`
		UPDATE operations
		   SET title = CASE title WHEN '' THEN ?1 ELSE title END, target = CASE WHEN `+unnamed+` AND ?2 <> '' THEN ?2 ELSE target END
		 WHERE id = ?3 AND (title = '' AND ?1 <> '' OR `+unnamed+` AND ?2 <> '') AND CAST(?4 AS bigint) IN (0, version)
		   AND EXISTS (SELECT 1 FROM open_operations h WHERE h.seq = operations.seq)`, p.Title, p.Target, p.OperationID, p.Version)
}

// unnamed says of a target what ledger.NamedTarget says.
const unnamed = `(target = '' OR substr(target, 1, 8) = 'request-')`

// listFlying puts what is in flight into the list, with its price.
var listFlying = `
	INSERT INTO open_operations (seq, ` + ListColumns("") + `, digest, downstream, priced_title, priced_target,
	       duplicate_value, duplicate_word, duplicate_guess, miss_value, miss_word, miss_guess,
	       odds, rank, decide_at, read_at, reads, ripe, search)
	SELECT s.seq, ` + ListColumns("s.") + `, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ` + pricedSearch + `
	  FROM open_source s WHERE s.seq = (SELECT seq FROM operations WHERE id = ?17 AND state = 'pending' AND CAST(?18 AS bigint) IN (0, version))
	   AND NOT EXISTS (SELECT 1 FROM open_operations h WHERE h.seq = s.seq)`

var reprice = `
	UPDATE open_operations
	   SET digest = ?1, downstream = ?2, priced_title = ?3, priced_target = ?4,
	       duplicate_value = ?5, duplicate_word = ?6, duplicate_guess = ?7, miss_value = ?8, miss_word = ?9, miss_guess = ?10,
	       odds = ?11, rank = ?12, decide_at = ?13, read_at = CASE WHEN reads > ?15 THEN read_at ELSE ?14 END, reads = CASE WHEN reads > ?15 THEN reads ELSE ?15 END, ripe = ?16,
	       search = (SELECT ` + pricedSearch + ` FROM open_source s WHERE s.seq = open_operations.seq)
	 WHERE seq = (SELECT seq FROM operations WHERE id = ?17 AND CAST(?18 AS bigint) IN (0, version))`

// pricedSearch is the text of a search, with the names ?3 and ?4 of a price.
const pricedSearch = `s.words || lower(` + newline + ` || ?3 || ` + newline + ` || ?4)`
