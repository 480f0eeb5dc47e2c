package sqlite

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

// fill makes a ledger with many operations, a tenth of them in doubt, priced and in outages. They
// are copies of two that the store has written, with the triggers set aside meanwhile.
func fill(b *testing.B, path string, operations int) {
	s := need.Get(Create(ctx, path, Options{}))(b)
	settleAs(b, s, begin(b, s).Attempt.ID, ledger.OutcomeUncertain)
	settleAs(b, s, begin(b, s).Attempt.ID, ledger.OutcomeCommitted)
	now := s.now().UnixMilli()
	need.OK(b, s.Close())
	db := rawDB(b, path)
	exec := func(query string, args ...any) {
		b.Helper()
		need.Get(db.Exec(query, args...))(b)
	}
	exec(`PRAGMA synchronous = OFF`)
	exec(`PRAGMA cache_size = -400000`)
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
	exec(`CREATE TEMP TABLE new (i INTEGER PRIMARY KEY, was INTEGER, t INTEGER)`)
	exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		INSERT INTO new SELECT i, CASE WHEN i % 10 = 0 THEN 1 ELSE 2 END, ?2 - (?1 - i) * 100 FROM n`, operations, now)
	exec(`CREATE TEMP TABLE was AS SELECT * FROM op`)
	exec(`CREATE TEMP TABLE said AS SELECT * FROM ev`)
	exec(`DELETE FROM op`)
	exec(`DELETE FROM ev`)
	exec(`DELETE FROM price`)
	s = need.Get(Open(ctx, path, Options{ReadOnly: true}))(b)
	columns := func(table string, made map[string]string) (names, values string) {
		for i, name := range texts(b, s, `SELECT name FROM pragma_table_info(?)`, table) {
			if i > 0 {
				names, values = names+", ", values+", "
			}
			if made[name] == "" {
				made[name] = "w." + name
			}
			names, values = names+name, values+made[name]
		}
		return names, values
	}
	opNames, op := columns("op", map[string]string{"seq": "i", "id": `printf('01900000-0000-7000-8000-%012d', i)`,
		"kind": `CASE i % 4 WHEN 0 THEN 'mail.send' ELSE 'stripe.charge' END`, "name": `'key-' || i`, "token": `'indoubt-' || i`,
		"input": `printf('%064x', i * 2654435761 % 4294967296)`, "gate": `printf('%032x', i * 2654435761 % 4294967296)`,
		"title": `'charge cus_' || (i % 9973) || ' for INV-' || i`, "target": `'invoice INV-' || i`,
		"receipts":   `CASE w.state WHEN 'committed' THEN json_array('ch_' || i) ELSE '[]' END`,
		"created_at": "t", "started_at": "t", "begun_at": "t", "changed_at": "t + 50", "ended_at": "t + 50",
		"doubted_at": "iif(w.doubted, t + 50, 0)", "settled_at": "iif(w.doubted, 0, t + 50)", "change_id": `'c' || i`,
		"policy": "iif(w.doubted, 'p', '')", "rank": "iif(w.doubted, i / 10 % 9973, 0)",
		"person_at": "iif(w.doubted AND i / 10 % 3 = 0, 253402300799999, 0)"})
	evNames, ev := columns("ev", map[string]string{"op": "i", "at": "t + 50 * (w.verb <> 'begin')", "lost_at": "iif(w.lost_at, t + 50, 0)",
		"seq": "2 * i - (w.verb = 'begin')",
		"id":  "iif(w.verb = 'begin', 'b', 'c') || i", "facts": `iif(w.verb = 'begin', json_set(w.facts, '$.id', 'a' || i), w.facts)`})
	need.OK(b, s.Close())
	exec(`INSERT INTO op (` + opNames + `) SELECT ` + op + ` FROM new CROSS JOIN was w ON w.seq = new.was ORDER BY i`)
	exec(`INSERT INTO ev (` + evNames + `) SELECT ` + ev + ` FROM new CROSS JOIN said w ON w.op = new.was ORDER BY i, w.seq`)
	exec(`INSERT INTO price (op, downstream, duplicate, miss, odds)
		SELECT i, 'stripe', 100, 50, 0.4
		FROM new WHERE was = 1`)
	exec(`INSERT INTO total (what, n) SELECT json_array(state, kind, ''), count(*) FROM op GROUP BY state, kind
		UNION ALL SELECT json_array('seq', '', ''), max(seq) FROM ev`)
	// All that is in doubt is of 500 outages, or as many as there is enough for.
	exec(`INSERT INTO outage (id, scope, kinds, pipelines, classes, gap_ms, opened_at, first_at, last_at)
		SELECT printf('%08x', i * 2654435761 % 4294967296), 'downstream:stripe', '["stripe.charge","mail.send"]', '[]', '[]', 100000, t, t,
			t + 100000
		  FROM new WHERE i % 2000 = 1`)
	for _, text := range triggers {
		exec(text)
	}
	exec(`COMMIT`)
	exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
}

// BenchmarkFirstPage1M reads what a console shows first, and what it shows next,
// of a million operations of which a hundred thousand are open.
func BenchmarkFirstPage1M(b *testing.B) {
	path := filepath.Join(b.TempDir(), "ledger.db")
	fill(b, path, 1_000_000)
	s := need.Get(Open(ctx, path, Options{ReadOnly: true}))(b)
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

// gated is a database that a prune reads only while it is let.
type gated struct {
	store.Database
	let *sync.RWMutex
}

func (g gated) View(ctx context.Context, read func(store.Tx) error) error {
	g.let.RLock()
	defer g.let.RUnlock()
	return g.Database.View(ctx, read)
}

// BenchmarkPrune moves what is settled of a hundred thousand operations while another one writes: how long it takes for each,
// the writer's speed beside its own while the prune stands still, and its slowest write. Both take turns, for what else the
// host does changes from one second to the next.
func BenchmarkPrune(b *testing.B) {
	path := filepath.Join(b.TempDir(), "ledger.db")
	fill(b, path, 100_000)
	s := need.Get(Open(ctx, path, Options{}))(b)
	defer s.Close()
	w := need.Get(Open(ctx, path, Options{}))(b)
	defer w.Close()
	const beside, alone, turn = 0, 1, 400 * time.Millisecond
	for range b.N {
		var let sync.RWMutex
		over, done := make(chan struct{}), ledger.Pruned{}
		var began, turned time.Time
		go func() {
			defer close(over)
			time.Sleep(turn)
			done = need.Get(store.New(gated{s.Database(), &let}, nil, "").Prune(ctx, ledger.Prune{Before: s.now().Add(-time.Second),
				To: b.TempDir(), Actor: ledger.Actor{Name: "maya"}}))(b)
		}()
		var n [2]float64
		var took, slowest [2]time.Duration
		turned, now := time.Now(), alone
		let.Lock()
		for more := true; more; n[now]++ {
			began = time.Now()
			if began.Sub(turned) > turn {
				if turned, now = began, 1-now; now == alone {
					let.Lock()
				} else {
					let.Unlock()
				}
			}
			res := begin(b, w, func(r *ledger.BeginRequest) { r.Kind, r.Target, r.TTL = "note", "", 0 })
			settleAs(b, w, res.Attempt.ID, ledger.OutcomeCommitted)
			one := time.Since(began)
			took[now], slowest[now] = took[now]+one, max(slowest[now], one)
			select {
			case <-over:
				more = false
			default:
			}
		}
		b.ReportMetric(float64(took[beside].Microseconds())/float64(max(done.Operations, 1)), "µs/pruned")
		b.ReportMetric(float64(done.Operations), "pruned")
		b.ReportMetric(n[alone]/took[alone].Seconds(), "alone/s")
		b.ReportMetric(n[beside]/took[beside].Seconds()/(n[alone]/took[alone].Seconds()), "speed")
		b.ReportMetric(float64(slowest[beside].Milliseconds()), "slowest-ms")
		b.ReportMetric(float64(slowest[alone].Milliseconds()), "slowest-alone-ms")
	}
}
