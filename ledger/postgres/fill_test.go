//go:build soak && unported

package postgres

import (
	"fmt"
	"testing"

	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/tables"
)

// fill makes a ledger with many operations, a tenth of them open, with the triggers set
// aside meanwhile, and gives its address.
func fill(t testing.TB, operations int) string {
	t.Helper()
	return pgtest.From(t, fmt.Sprint("full_", operations), func(url string) error {
		s, err := Create(ctx, url, Options{})
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			return err
		}
		out, err := pgtest.Psql(t, url, "SET search_path = "+path+"; BEGIN;"+filled(operations)+"COMMIT; VACUUM ANALYZE") // as the server does after a while
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// filled is the script that fills a ledger.
func filled(operations int) string {
	return fmt.Sprintf(`
SET LOCAL session_replication_role = replica;
SET LOCAL maintenance_work_mem = '256MB';
CREATE TEMP TABLE aside ON COMMIT DROP AS SELECT indexname, indexdef FROM pg_indexes
 WHERE (schemaname, tablename) = ('indoubt', 'operations') AND indexname NOT IN ('operations_pkey', 'operations_id_key'); -- made over all rows, they take a tenth of the time
DO $$ DECLARE one text; BEGIN FOR one IN SELECT indexname FROM aside LOOP EXECUTE 'DROP INDEX indoubt.' || one; END LOOP; END $$;
INSERT INTO indoubt.operations (seq, id, kind, key, token, receipt, receipts, fingerprint, title, target, input, source, state, version, doubted, attempt_count,
       created_at, updated_at, started_at, ended_at, doubted_at, settled_at, change_id, actor, reason, resolved, is_open)
SELECT i, '01900000-0000-7000-8000-' || lpad(i::text, 12, '0'), CASE i %% 4 WHEN 0 THEN 'mail.send' ELSE 'stripe.charge' END, 'key-' || i, 'indoubt-' || i,
       CASE WHEN open THEN '' ELSE 'ch_' || i END, CASE WHEN open THEN '[]' ELSE '["ch_' || i || '"]' END, md5(i::text) || md5((-i)::text),
       'charge cus_' || i %% 9973 || ' for INV-' || i, 'invoice INV-' || i,
       '{"amount": 4200, "customer": "cus_9", "note": "an input as long as inputs usually are, with some words in it"}', 'billing',
       CASE WHEN open THEN 'uncertain' ELSE 'committed' END, 2, open, 1, at, at + interval '50 ms', at, at + interval '50 ms',
       CASE WHEN open THEN at + interval '50 ms' END, CASE WHEN NOT open THEN at + interval '50 ms' END, 'c' || i, 'billing', 'attempt 1', NOT open, open
  FROM generate_series(1, %[1]d) i, LATERAL (SELECT i %% 10 = 0 AS open, date_trunc('second', now()) - (%[1]d - i) * interval '100 ms' AS at) x;
SELECT setval('indoubt.operations_seq', %[1]d);
INSERT INTO indoubt.outages (id, scope, kinds, gap_ms, opened_at, first_at, last_at)
SELECT md5(seq::text), 'downstream:stripe', '["stripe.charge","mail.send"]', 100000, ended_at, ended_at, ended_at + interval '100 s' FROM indoubt.operations WHERE seq %% 2000 = 1;
INSERT INTO indoubt.attempts (operation_id, n, id, started_at, deadline_at, ended_at, outcome)
SELECT id, 1, id || '.1', started_at, ended_at, ended_at, 'uncertain' FROM indoubt.operations WHERE state = 'uncertain';
DO $$ DECLARE one text; BEGIN FOR one IN SELECT indexdef FROM aside LOOP EXECUTE one; END LOOP; END $$;
ANALYZE indoubt.operations; ANALYZE indoubt.attempts;
`, operations) + numbered(tables.ListNew+` WHERE s.state = 'uncertain'`).query + `;
UPDATE indoubt.open_operations SET digest = 'p', downstream = 'stripe', duplicate_value = 100, miss_value = 50, odds = 0.4, rank = seq / 10 % 9973,
       decide_at = CASE WHEN seq / 10 % 3 = 0 THEN 253402300799999 ELSE 0 END, ripe = (seq / 10 % 3 <> 0)::int;
INSERT INTO indoubt.total (kind, what, class, n) SELECT kind, state, '', count(*) FROM indoubt.operations GROUP BY 1, 2;
`
}
