package sqlite

import (
	"context"
	"database/sql"
	"time"

	"indoubt/ledger"
)

// pricingColumns are what a policy says of an operation; beside one that is in no
// list, nothing.
const pricingColumns = `coalesce(h.digest, ''), coalesce(h.downstream, ''), coalesce(h.priced_title, ''), coalesce(h.priced_target, ''),
	coalesce(h.duplicate_value, 0.0), coalesce(h.duplicate_word, ''), coalesce(h.duplicate_guess, 0),
	coalesce(h.miss_value, 0.0), coalesce(h.miss_word, ''), coalesce(h.miss_guess, 0),
	coalesce(h.odds, 0.0), coalesce(h.rank, 0.0), coalesce(h.decide_at, 0), coalesce(h.read_at, 0), coalesce(h.reads, 0)`

// pricingScan takes the columns above.
type pricingScan struct {
	p              ledger.Pricing
	decide, readAt int64
}

func (s *pricingScan) dest(to []any) []any {
	p := &s.p
	return append(to, &p.Digest, &p.Downstream, &p.Title, &p.Target, &p.Duplicate.Value, &p.Duplicate.Word, &p.Duplicate.Guess,
		&p.Miss.Value, &p.Miss.Word, &p.Miss.Guess, &p.Odds, &p.Rank, &s.decide, &s.readAt, &p.Reads)
}

// pricing names the operation even where it has no price yet.
func (s *pricingScan) pricing(id string) ledger.Pricing {
	p := s.p
	p.OperationID, p.DecideAt, p.ReadAt = id, at(s.decide), at(s.readAt)
	return p
}

// passing is how long something must have been in flight to be worth a price.
const passing = time.Second

// Unpriced returns open operations whose derived columns are of another policy
// or of an older version of the operation, newest first: the oldest are read
// first, which prices them too. Those in flight come last, and only when they
// stay there.
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
		        LIMIT ?2+0) h
		  CROSS JOIN operations o ON o.seq = h.seq`, digest, limit, ms(s.now().Add(-passing)))
	return ops, translate(s.path, err)
}

func scanOperation(rows *sql.Rows) (ledger.Operation, error) {
	op := operationScan{columns: columns}
	if err := rows.Scan(op.dest(nil)...); err != nil {
		return ledger.Operation{}, err
	}
	return op.operation(), nil
}

// Price writes what a policy says beside open operations. Those that have moved
// or left the list since are passed over.
func (s *Store) Price(ctx context.Context, prices []ledger.Pricing) error {
	if len(prices) == 0 {
		return s.writable()
	}
	return s.write(ctx, func(tx *tx) error {
		now := ms(s.now())
		for _, p := range prices {
			if err := tx.price(p, now); err != nil {
				return err
			}
		}
		return tx.doubts(prices)
	})
}

func (tx *tx) price(p ledger.Pricing, now int64) error {
	n, err := tx.reprice(p, now)
	if err == nil && n == 0 {
		// It has moved or left the list, or is in flight and was not worth a price before.
		if n, err = tx.execN(listFlying, p.OperationID, p.Version); err == nil && n > 0 {
			n, err = tx.reprice(p, now)
		}
	}
	if err != nil || n == 0 || p.Title == "" && p.Target == "" {
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
