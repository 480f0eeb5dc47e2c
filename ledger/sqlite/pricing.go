package sqlite

import (
	"context"
	"database/sql"
	"time"

	"indoubt/ledger"
)

// passing is how long something must have been in flight to be worth a price.
const passing = time.Second

// Unpriced returns open operations whose derived columns are of another policy
// or of an older version of the operation, newest first: the oldest are read
// first, which prices them too. Those in flight come last, and only when they
// stay there; then what settled in an incident before it had a price.
func (s *Store) Unpriced(ctx context.Context, digest string, limit int) ([]ledger.Operation, error) {
	ops, err := collect(outside{ctx, s.handle}, scanOperation, `
		SELECT `+operationColumns+`
		  FROM (SELECT * FROM (SELECT seq FROM open_operations INDEXED BY open_by_digest WHERE digest < ?1 AND class <> 'pending'
		                        ORDER BY digest DESC, seq DESC LIMIT ?2+0)
		        UNION ALL
		        SELECT * FROM (SELECT seq FROM open_operations INDEXED BY open_by_digest WHERE digest > ?1 AND class <> 'pending'
		                        ORDER BY digest DESC, seq DESC LIMIT ?2+0)
		        UNION ALL
		        SELECT o.seq FROM `+flightFrom+` AND o.started_at < ?3 AND (h.seq IS NULL OR h.digest <> ?1)
		        UNION ALL
		        SELECT m.seq FROM incident_members m INDEXED BY members_unpriced CROSS JOIN operations o ON o.seq = m.seq
		         WHERE m.unpriced = 1 AND o.state <> 'pending' AND NOT EXISTS (SELECT 1 FROM open_operations h WHERE h.seq = m.seq)
		        LIMIT ?2+0) h
		  CROSS JOIN operations o ON o.seq = h.seq`, digest, limit, ms(s.now().Add(-passing)))
	return ops, translate(s.path, err)
}

func scanOperation(rows *sql.Rows) (ledger.Operation, error) {
	s := scan[ledger.Operation]{columns: columns}
	err := rows.Scan(s.dest(nil)...)
	return operationOf(&s), err
}

// Price writes what a policy says beside open operations, and for its incident beside
// one that settled without a price. Those that have moved since are passed over.
func (s *Store) Price(ctx context.Context, prices []ledger.Pricing) error {
	if len(prices) == 0 {
		return s.writable()
	}
	return s.write(ctx, func(tx *tx) error {
		now := ms(s.now())
		for _, p := range prices {
			if err := tx.price(p, now, ledger.Operation{ID: p.OperationID}); err != nil {
				return err
			}
		}
		return tx.doubts(prices)
	})
}

// price writes a price beside operation o. One that has its names keeps them without
// a statement, which would set off triggers and takes long to prepare.
func (tx *tx) price(p ledger.Pricing, now int64, o ledger.Operation) error {
	n, err := tx.reprice(p, now)
	if err == nil && n == 0 {
		// It has moved or left the list, or is in flight and was not worth a price before.
		if n, err = tx.execN(listFlying, p.OperationID, p.Version); err == nil && n > 0 {
			n, err = tx.reprice(p, now)
		}
		if err == nil && n == 0 {
			err = tx.exec(priceSettled, finite(p.Miss.Value), p.Miss.Word, finite(p.Duplicate.Value), p.Duplicate.Word, p.OperationID, p.Version)
		}
	}
	if err != nil || n == 0 || (p.Title == "" || o.Title != "") && (p.Target == "" || o.Target != "") {
		return err
	}
	// A plain-SQL writer names nothing: the policy's words stay with the operation
	// when it has left the list, and tell what it overtakes.
	return tx.exec(`
		UPDATE operations
		   SET title = CASE title WHEN '' THEN ?1 ELSE title END, target = CASE target WHEN '' THEN ?2 ELSE target END
		 WHERE id = ?3 AND (title = '' AND ?1 <> '' OR target = '' AND ?2 <> '')`, p.Title, p.Target, p.OperationID)
}

// listFlying puts what is in flight into the list.
var listFlying = listNew + ` WHERE s.seq = (SELECT seq FROM operations WHERE id = ?1 AND state = 'pending' AND ?2 IN (0, version))
	AND NOT EXISTS (SELECT 1 FROM open_operations h WHERE h.seq = s.seq)`

// priceSettled gives an operation of an incident the price that it did not have when it
// settled.
const priceSettled = `
	UPDATE incident_members SET miss = ?1, miss_word = ?2, twice = ?3, twice_word = ?4, unpriced = 0
	 WHERE unpriced = 1 AND seq = (SELECT seq FROM operations WHERE id = ?5 AND ?6 IN (0, version))
	   AND NOT EXISTS (SELECT 1 FROM open_operations h WHERE h.seq = incident_members.seq)`

var reprice = `
	UPDATE open_operations
	   SET digest = ?, downstream = ?, priced_title = ?3, priced_target = ?4,
	       duplicate_value = ?, duplicate_word = ?, duplicate_guess = ?, miss_value = ?, miss_word = ?, miss_guess = ?,
	       odds = ?, rank = ?, decide_at = ?, read_at = CASE WHEN reads > ?14 THEN read_at ELSE ? END, reads = max(reads, ?14), ripe = ?,
	       search = (SELECT s.words || lower(char(10) || ?3 || char(10) || ?4) FROM open_source s WHERE s.seq = open_operations.seq)
	 WHERE seq = (SELECT seq FROM operations WHERE id = ? AND ? IN (0, version))`

func (tx *tx) reprice(p ledger.Pricing, now int64) (int64, error) {
	return tx.execN(reprice,
		p.Digest, p.Downstream, p.Title, p.Target,
		finite(p.Duplicate.Value), p.Duplicate.Word, flag(p.Duplicate.Guess), finite(p.Miss.Value), p.Miss.Word, flag(p.Miss.Guess),
		finite(p.Odds), finite(p.Rank), ms(p.DecideAt), p.Reads, ms(p.ReadAt), flag(ms(p.DecideAt) <= now), p.OperationID, p.Version)
}
