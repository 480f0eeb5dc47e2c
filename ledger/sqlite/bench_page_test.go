package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

// fill makes a ledger with many operations, a tenth of them open, with the
// triggers set aside meanwhile.
func fill(b *testing.B, path string, operations int) {
	db := rawDB(b, path)
	exec := func(query string, args ...any) {
		b.Helper()
		need.Get(db.Exec(query, args...))(b)
	}
	exec(`PRAGMA synchronous = OFF`)
	exec(`PRAGMA cache_size = -200000`)
	rows := need.Get(db.Query(`SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'`))(b)
	triggers := map[string]string{}
	for rows.Next() {
		var name, text string
		need.OK(b, rows.Scan(&name, &text))
		triggers[name] = text
	}
	need.OK(b, rows.Err())
	need.OK(b, rows.Close())
	exec(`BEGIN IMMEDIATE`)
	for name := range triggers {
		exec(`DROP TRIGGER ` + name)
	}
	now := time.Now().UnixMilli()
	exec(`
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		INSERT INTO operations (id, kind, key, token, receipt, receipts, fingerprint, title, target, input, source, state, version, doubted, attempt_count,
		                        created_at, updated_at, started_at, deadline_at, ended_at, doubted_at, settled_at, change_id, actor, reason)
		SELECT printf('01900000-0000-7000-8000-%012d', i), CASE i % 4 WHEN 0 THEN 'mail.send' ELSE 'stripe.charge' END, 'key-' || i, 'indoubt-' || i, CASE WHEN i % 10 = 0 THEN '' ELSE 'ch_' || i END,
		       CASE WHEN i % 10 = 0 THEN '[]' ELSE json_array('ch_' || i) END,
		       printf('%064x', i * 2654435761 % 4294967296), 'charge cus_' || (i % 9973) || ' for INV-' || i, 'invoice INV-' || i,
		       '{"amount": 4200, "customer": "cus_9", "note": "an input as long as inputs usually are, with some words in it"}',
		       'billing', CASE WHEN i % 10 = 0 THEN 'uncertain' ELSE 'committed' END, 2, i % 10 = 0, 1,
		       ?2 - (?1 - i) * 100, ?2 - (?1 - i) * 100 + 50, ?2 - (?1 - i) * 100, 0, ?2 - (?1 - i) * 100 + 50,
		       CASE WHEN i % 10 = 0 THEN ?2 - (?1 - i) * 100 + 50 ELSE 0 END, CASE WHEN i % 10 = 0 THEN 0 ELSE ?2 - (?1 - i) * 100 + 50 END,
		       'c' || i, 'billing', 'attempt 1'
		  FROM n`, operations, now)
	exec(tables.ListNew + ` WHERE s.state = 'uncertain'`)
	exec(`
		UPDATE open_operations SET digest = 'p', downstream = 'stripe', duplicate_value = 100, miss_value = 50, odds = 0.4, rank = seq / 10 % 9973,
		       decide_at = CASE WHEN seq / 10 % 3 = 0 THEN 253402300799999 ELSE 0 END, ripe = seq / 10 % 3 <> 0`)
	exec(`INSERT INTO total (kind, what, class, n) SELECT kind, state, '', count(*) FROM operations GROUP BY 1, 2`)
	// All that is in doubt is of 500 outages, or as many as there is enough for.
	exec(`
		INSERT INTO outages (id, scope, kinds, gap_ms, opened_at, first_at, last_at)
		SELECT printf('%08x', seq * 2654435761 % 4294967296), 'downstream:stripe', '["stripe.charge","mail.send"]', 100000, ended_at, ended_at, ended_at + 100000
		  FROM operations WHERE seq % 2000 = 1`)
	exec(`
		INSERT INTO attempts (operation_id, n, id, started_at, deadline_at, ended_at, outcome)
		SELECT id, 1, id || '.1', started_at, ended_at, ended_at, 'uncertain' FROM operations WHERE state = 'uncertain'`)
	for _, text := range triggers {
		exec(text)
	}
	exec(`COMMIT`)
	exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
}

// BenchmarkFirstPage1M reads what a console shows first, and what it shows next,
// of a million operations of which a hundred thousand are open.
func BenchmarkFirstPage1M(b *testing.B) {
	path := b.TempDir() + "/ledger.db"
	s := need.Get(Create(ctx, path, Options{}))(b)
	need.OK(b, s.Close())
	fill(b, path, 1_000_000)
	s = need.Get(Open(ctx, path, Options{ReadOnly: true}))(b)
	defer s.Close()
	now := s.now()
	b.Run("open+page+counts", func(b *testing.B) {
		for range b.N {
			s := need.Get(Open(ctx, path, Options{ReadOnly: true}))(b)
			need.Get(s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Now: now}))(b)
			need.Get(s.Counts(ctx, now))(b)
			need.OK(b, s.Close())
		}
	})
	ledgertest.BenchPages(b, s, 1_000_000, now)
}

// BenchmarkEngine settles doubts as an engine does.
func BenchmarkEngine(b *testing.B) {
	ledgertest.BenchEngine(b, func() ledger.Store {
		s := need.Get(Create(ctx, filepath.Join(b.TempDir(), "ledger.db"), Options{}))(b)
		b.Cleanup(func() { s.Close() })
		return s
	})
}
