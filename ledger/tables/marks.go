package tables

import (
	"context"

	"indoubt/ledger"
)

// Keyed asks the index of keys.
func (s *Store) Keyed(ctx context.Context, key string, limit int) ([]string, error) {
	return Gather(ctx, s.db, word, `
		SELECT id FROM operations WHERE key IN (?1, ?3) AND key_live = 1
		 ORDER BY created_at DESC, id DESC LIMIT ?2+0`, key, limit, ledger.Masked(key))
}

// fieldNames goes from one list of fields to the next by the index. What a caller gave as a
// key that looks like one is passed by.
const fieldNames = `
	WITH RECURSIVE name(key) AS (
		SELECT * FROM (SELECT key FROM operations WHERE key_live = 1 AND key > 'fields-' AND key < 'fields.' ORDER BY key LIMIT 1) AS first
		UNION ALL
		SELECT (SELECT o.key FROM operations o WHERE o.key_live = 1 AND o.key < 'fields.'
		         AND o.key > CASE WHEN n.key LIKE 'fields-%:________________________________'
		                     THEN rtrim(n.key, '0123456789abcdef') || 'g' ELSE n.key END
		         ORDER BY o.key LIMIT 1)
		  FROM name n WHERE n.key IS NOT NULL)
	SELECT key FROM name WHERE key IS NOT NULL`

// FieldNames asks the index of keys.
func (s *Store) FieldNames(ctx context.Context) ([]string, error) {
	return Gather(ctx, s.db, word, fieldNames)
}

// Marked asks the index of marks.
func (s *Store) Marked(ctx context.Context, value string, limit int) ([]string, error) {
	if value == "" {
		return nil, nil
	}
	return Gather(ctx, s.db, word, `
		SELECT m.operation_id FROM marks m LEFT JOIN operations o ON o.id = m.operation_id WHERE m.value IN (?, ?)
		 ORDER BY coalesce(o.created_at, 0) DESC, m.operation_id DESC LIMIT ?+0`, value, ledger.Masked(value), limit)
}

func (tx *tx) mark(operationID string, values []string) error {
	for _, v := range values {
		if err := tx.Later(`INSERT INTO marks (value, operation_id) VALUES (?, ?) ON CONFLICT DO NOTHING`, v, operationID); err != nil {
			return err
		}
	}
	return nil
}

// kindRules goes from one pair of kind and rule to the next by the index, so that
// no list of operations is read. SQLite enters an index at the first bound of a column
// that a statement names, and compares pairs of columns by their first.
const kindRules = `
	WITH RECURSIVE pair(kind, rule) AS (
		SELECT * FROM (SELECT kind, mark_rules FROM operations WHERE mark_rules >= '' ORDER BY kind, mark_rules LIMIT 1) AS first
		UNION ALL
		SELECT n.kind, n.mark_rules FROM pair p JOIN operations n ON n.seq = coalesce(
			(SELECT seq FROM operations WHERE kind = p.kind AND mark_rules > p.rule AND mark_rules >= '' ORDER BY kind, mark_rules LIMIT 1),
			(SELECT seq FROM operations WHERE kind > p.kind AND mark_rules >= '' ORDER BY kind, mark_rules LIMIT 1)))
	SELECT kind, rule FROM pair`

// Mark looks for what is to be marked outside of the write, and writes only where
// there is something.
func (s *Store) Mark(ctx context.Context, rules func(kind string) string, marks func(ledger.Operation) ledger.Marks, limit int) (more bool, err error) {
	pairs, err := Gather(ctx, s.db, func(rows Rows) (p [2]string, err error) {
		return p, rows.Scan(&p[0], &p[1])
	}, kindRules)
	if err != nil {
		return false, err
	}
	for _, p := range pairs {
		want := rules(p[0])
		if want == "" || want == p[1] {
			continue
		}
		ops, err := Gather(ctx, s.db, scanOperation, `SELECT `+operationColumns+` FROM operations o WHERE kind = ? AND mark_rules = ? AND mark_rules >= '' AND redacted_at = 0 LIMIT ?+0`, p[0], p[1], limit)
		if err != nil {
			return false, err
		}
		err = s.update(ctx, func(tx *tx) error {
			for _, o := range ops {
				made := marks(o)
				if err := tx.mark(o.ID, made.Values); err != nil {
					return err
				}
				if err := tx.Later(`UPDATE operations SET mark_rules = ? WHERE id = ?`, want, o.ID); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return false, err
		}
		if limit -= len(ops); limit <= 0 {
			return true, nil
		}
	}
	return false, nil
}
