package sqlite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// rawLoop is the reference: two durable commits a round, an operation with its
// event and then its outcome with another, through the same driver, with no
// guards, indexes or lists.
func rawLoop(b *testing.B) func(i int) {
	db := need.Get(sql.Open("sqlite", dsn(filepath.Join(b.TempDir(), "raw.db"), "rwc", "journal_mode(WAL)", "synchronous(FULL)")))(b)
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	need.Get(db.Exec(`
		CREATE TABLE ops (id TEXT PRIMARY KEY, kind TEXT, key TEXT, input TEXT, state TEXT, result TEXT, at INTEGER);
		CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT, verb TEXT, actor TEXT, at INTEGER)`))(b)
	prepare := func(query string) *sql.Stmt {
		st := need.Get(db.Prepare(query))(b)
		return st
	}
	insert := prepare(`INSERT INTO ops (id, kind, key, input, state, at) VALUES (?, 'stripe.charge', ?, ?, 'pending', ?)`)
	update := prepare(`UPDATE ops SET state = 'committed', result = ? WHERE id = ? AND state = 'pending'`)
	event := prepare(`INSERT INTO events (op, verb, actor, at) VALUES (?, ?, 'billing', ?)`)
	commit := func(do func(tx *sql.Tx)) {
		tx := need.Get(db.Begin())(b)
		do(tx)
		need.OK(b, tx.Commit())
	}
	exec := func(tx *sql.Tx, st *sql.Stmt, args ...any) {
		need.Get(tx.Stmt(st).Exec(args...))(b)
	}
	return func(i int) {
		id, now := ledger.NewID(), time.Now().UnixMilli()
		commit(func(tx *sql.Tx) {
			exec(tx, insert, id, fmt.Sprint("key", i), `{"amount": 100}`, now)
			exec(tx, event, id, "begin", now)
		})
		commit(func(tx *sql.Tx) {
			exec(tx, update, `{"id": "ch_1"}`, id)
			exec(tx, event, id, "settle", now)
		})
	}
}

func storeLoop(b *testing.B) func(i int) {
	s := need.Get(Create(ctx, filepath.Join(b.TempDir(), "ledger.db"), Options{}))(b)
	b.Cleanup(func() { s.Close() })
	return func(i int) {
		res := need.Get(ledger.Begin(ctx, s, request()))(b)
		need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted,
			Receipt: fmt.Sprint("ch_", i), Result: []byte(`{"id": "ch_1"}`), TokenSent: true, Actor: billing}))(b)
	}
}

// BenchmarkBeginSettle compares begin and settle with two raw commits of one
// caller, in turns so that both meet the same machine.
func BenchmarkBeginSettle(b *testing.B) {
	for _, inFlight := range []int{1, 16} {
		b.Run(fmt.Sprintf("inflight=%d", inFlight), func(b *testing.B) {
			raw, store := rawLoop(b), storeLoop(b)
			ledgertest.Rate(200, 1, raw)
			ledgertest.Rate(200, inFlight, store)
			var rawRate, storeRate float64
			const turns = 5
			b.ResetTimer()
			for range b.N {
				rawRate, storeRate = 0, 0
				for range turns {
					rawRate += ledgertest.Rate(500, 1, raw) / turns
					storeRate += ledgertest.Rate(500, inFlight, store) / turns
				}
			}
			b.ReportMetric(rawRate, "raw/s")
			b.ReportMetric(storeRate, "ledger/s")
			b.ReportMetric(storeRate/rawRate, "×raw")
			b.ReportMetric(0, "ns/op")
		})
	}
}
