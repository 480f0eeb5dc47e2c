//go:build soak && unported

package postgres

import (
	"context"
	"errors"
	"fmt"
	"indoubt/ledger/need"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// frozen finds rows that are gone or not what they may have become: the schema was has
// the tables as they were before.
var frozen = map[string]string{
	"operations": `SELECT w.id FROM was.operations w LEFT JOIN indoubt.operations o ON o.id = w.id
		WHERE (o.seq, o.kind, o.scope, o.key, o.token, o.fingerprint, o.input, o.command, o.created_at, o.source)
		      IS DISTINCT FROM (w.seq, w.kind, w.scope, w.key, w.token, w.fingerprint, w.input, w.command, w.created_at, w.source)
		   OR o.version < w.version OR w.doubted AND NOT o.doubted OR o.ended_at < w.ended_at
		   OR w.ended_at IS NOT NULL AND o.ended_at IS NULL OR w.doubted_at IS NOT NULL AND o.doubted_at IS NULL OR NOT w.key_live AND o.key_live`,
	"attempts": `SELECT w.id FROM was.attempts w LEFT JOIN indoubt.attempts a ON a.id = w.id
		WHERE (a.operation_id, a.n, a.basis, a.grant_id, a.started_at, a.db_user) IS DISTINCT FROM (w.operation_id, w.n, w.basis, w.grant_id, w.started_at, w.db_user)
		   OR w.outcome <> '' AND (a.outcome, a.ended_at, a.deadline_at, a.receipt, a.status, a.error_class)
		      IS DISTINCT FROM (w.outcome, w.ended_at, w.deadline_at, w.receipt, w.status, w.error_class)
		   OR w.late_outcome <> '' AND (a.late_outcome, a.late_at, a.late_receipt) IS DISTINCT FROM (w.late_outcome, w.late_at, w.late_receipt)`,
	"reads":  `SELECT id FROM (SELECT * FROM was.reads EXCEPT SELECT * FROM indoubt.reads) gone`,
	"events": `SELECT id FROM (SELECT * FROM was.events EXCEPT SELECT * FROM indoubt.events) gone`,
	"marks":  `SELECT value FROM (SELECT * FROM was.marks EXCEPT SELECT * FROM indoubt.marks) gone`,
	"grants": `SELECT w.id FROM was.grants w LEFT JOIN indoubt.grants g ON g.id = w.id
		WHERE (g.operation_id, g.version, g.basis, g.actor, g.created_at, g.expires_at, g.db_user)
		      IS DISTINCT FROM (w.operation_id, w.version, w.basis, w.actor, w.created_at, w.expires_at, w.db_user)
		   OR coalesce(w.consumed_at, w.voided_at) IS NOT NULL AND (g.consumed_at, g.attempt_id, g.voided_at) IS DISTINCT FROM (w.consumed_at, w.attempt_id, w.voided_at)`,
	"holds": `SELECT w.scope FROM was.holds w LEFT JOIN indoubt.holds h ON h.id = w.id
		WHERE (h.scope, h.actor, h.reason, h.created_at, h.until) IS DISTINCT FROM (w.scope, w.actor, w.reason, w.created_at, w.until)
		   OR w.released_at IS NOT NULL AND h.released_at IS DISTINCT FROM w.released_at`,
}

// mustNotBe finds rows that must not be.
var mustNotBe = map[string]string{
	"one live key is one operation (I4)": `SELECT key FROM indoubt.operations WHERE key_live GROUP BY scope, kind, key HAVING count(*) > 1`,
	"attempts are counted": `SELECT id FROM indoubt.operations o
		WHERE (attempt_count, attempt_count) IS DISTINCT FROM (SELECT (count(*), coalesce(max(n), 0)) FROM indoubt.attempts a WHERE a.operation_id = o.id)`,
	"an attempt is in flight when its operation is (I3)": `SELECT o.id FROM indoubt.operations o
		WHERE (state = 'pending')::int <> (SELECT count(*) FROM indoubt.attempts a WHERE a.operation_id = o.id AND a.outcome = '')
		   OR state = 'pending' AND NOT EXISTS (SELECT 1 FROM indoubt.attempts a WHERE a.id = o.live_attempt AND a.operation_id = o.id AND a.outcome = '' AND a.deadline_at = o.deadline_at)
		   OR state <> 'pending' AND live_attempt <> ''`,
	"a doubt is known (I2)": `SELECT id FROM indoubt.operations WHERE state = 'uncertain' AND (NOT doubted OR doubted_at IS NULL OR ended_at IS NULL)`,
	"nothing that a writer ended was ended before (I6)": `SELECT o.id FROM indoubt.operations o JOIN indoubt.events e ON e.operation_id = o.id
		WHERE e.from_state = 'pending' AND e.to_state <> 'pending' AND e.actor = 'eve'
		  AND (o.ended_at < e.at OR (SELECT max(ended_at) FROM indoubt.attempts a WHERE a.operation_id = o.id) < e.at)`,
	"every change of state is in the history, once and in order (I8)": `SELECT id FROM (
		SELECT o.id, e.from_state, lag(e.to_state, 1, '') OVER w AS was, e.to_state, lead(e.from_state, 1, o.state) OVER w AS next
		  FROM indoubt.operations o LEFT JOIN indoubt.events e ON e.operation_id = o.id AND e.from_state <> e.to_state WINDOW w AS (PARTITION BY o.id ORDER BY e.seq)) told
		WHERE from_state IS DISTINCT FROM was OR to_state IS DISTINCT FROM next`,
	"no other attempt without a grant or proof (I5)": `SELECT a.id FROM indoubt.attempts a JOIN indoubt.attempts b ON b.operation_id = a.operation_id AND b.n < a.n
		WHERE a.grant_id = '' AND b.proof = ''`,
	"a grant lets one attempt begin (I3)": `SELECT g.id FROM indoubt.grants g WHERE consumed_at IS NOT NULL AND 1 < (SELECT count(*) FROM indoubt.attempts a WHERE a.grant_id = g.id)`,
	"one hold is in force on a scope":     `SELECT scope FROM indoubt.holds WHERE released_at IS NULL GROUP BY scope HAVING count(*) > 1`,
	"only the machine signs as the machine": `SELECT id FROM indoubt.events WHERE indoubt.reserved(actor) AND NOT machine
		UNION ALL SELECT id FROM indoubt.operations WHERE change_of <> change_id AND actor IN ('checks', 'clock')`,
	"what is derived is what it is made from": `SELECT deviating || ': ' || one FROM indoubt.deviations()`,
}

// foldSQL adds to the sums what came after their place, as one who leads does.
const foldSQL = `BEGIN; SELECT pg_advisory_xact_lock(1);
	WITH at AS MATERIALIZED (SELECT * FROM indoubt.place), add AS MATERIALIZED (SELECT * FROM indoubt.counted),
	     went AS (DELETE FROM indoubt.total WHERE what = 'place')
	INSERT INTO indoubt.total (kind, what, class, n)
	SELECT kind, what, class, sum(n) FROM add GROUP BY 1, 2, 3 UNION ALL SELECT '', 'place', here, 0 FROM at
	    ON CONFLICT (kind, what, class) DO UPDATE SET n = total.n + excluded.n; COMMIT`

// writing is one connection that writes at random.
type writing struct {
	r       *rand.Rand
	name    string
	ids     int
	columns map[string][]randomColumn
}

type randomColumn struct{ name, kind string }

var randomTables = strings.Fields("operations operations operations operations attempts attempts reads grants grants events holds open_operations open_operations marks")

func anyOf[T any](w *writing, of ...T) T { return of[w.r.IntN(len(of))] }

func (w *writing) id() string { w.ids++; return fmt.Sprintf("%s-%d", w.name, w.ids) }

// row is SQL for a value that some row of a column has.
func (w *writing) row(table, column string) string {
	return fmt.Sprintf("(SELECT %[2]s FROM indoubt.%[1]s ORDER BY %[2]s OFFSET %[3]d %% greatest(1, (SELECT count(*) FROM indoubt.%[1]s)) LIMIT 1)", table, column, w.r.IntN(1000))
}

// value is SQL for something that may be written to a column.
func (w *writing) value(table string, c randomColumn) string {
	switch n := w.r.IntN(20); {
	case n == 0:
		return "NULL"
	case n < 4:
		return w.row(table, c.name)
	case c.name == "operation_id" && n < 16:
		return w.row("operations", "id")
	case (c.name == "live_attempt" || c.name == "attempt_id") && n < 10:
		return w.row("attempts", "id")
	case c.name == "grant_id" && n < 10:
		return w.row("grants", "id")
	}
	switch {
	case strings.HasPrefix(c.kind, "timestamp"):
		return "clock_timestamp() + '" + anyOf(w, "-1 hour", "-1 second", "0", "1 minute", "2 hours") + "'::interval"
	case c.kind == "boolean":
		return anyOf(w, "true", "false")
	case c.kind == "new":
		return anyOf(w, "0", "1", "2", "-1")
	case c.kind != "text":
		return anyOf(w, "0", "1", "2", "-1", c.name+" + 1", c.name+" - 1")
	}
	switch c.name {
	case "state", "from_state", "to_state", "outcome", "late_outcome":
		return "'" + anyOf(w, "pending", "committed", "failed", "uncertain", "abandoned", "") + "'"
	case "basis":
		return "'" + anyOf(w, "proof", "key_safe", "risk_accepted", "landed", "") + "'"
	case "proof", "verdict":
		return "'" + anyOf(w, "not_there", "refused", "never_sent", "key_safe", "landed", "") + "'"
	case "conflict":
		return "'" + anyOf(w, "duplicate", "contradiction", "") + "'"
	case "scope":
		return "'" + anyOf(w, "", "all", "kind:k") + "'"
	}
	return "'" + anyOf(w, w.id(), w.id(), "", "[]", "{}", `{"proof":"refused"}`, "clock", "eve") + "'"
}

// statement is what a pipeline in plain SQL says, or anything.
func (w *writing) statement() string {
	settle := func(id string) string {
		return fmt.Sprintf(`UPDATE indoubt.operations SET state = '%s', change_id = '%s', actor = 'eve', reason = 'why'%s WHERE id = %s`,
			anyOf(w, "committed", "failed", "uncertain", "uncertain"), w.id(), anyOf(w, "", ", receipt = 'r1'", ", error_class = 'timeout'",
				`, change_detail = '{"proof":"refused"}'`, ", live_attempt = '', deadline_at = NULL, version = version + 1", ", doubted = false, ended_at = created_at"), id)
	}
	switch n := w.r.IntN(20); {
	case n < 3:
		return fmt.Sprintf(`INSERT INTO indoubt.operations (id, kind, key, input, deadline_at, actor) VALUES ('%s', '%s', '%s', '{}', clock_timestamp() + '%s'::interval, 'eve')`,
			w.id(), anyOf(w, "k", "k2"), anyOf(w, w.id(), w.id(), "same"), anyOf(w, "1 minute", "1 hour", "10 milliseconds"))
	case n < 7:
		return settle(w.row("operations", "id"))
	case n == 7:
		return fmt.Sprintf(`INSERT INTO indoubt.grants (id, operation_id, version, basis, actor, created_at, expires_at) VALUES ('%s', %s, 1, 'risk_accepted', 'ann', clock_timestamp(), clock_timestamp() + '1 hour'::interval)`,
			w.id(), w.row("operations", "id"))
	case n == 8: // another attempt, as indoubt begins it
		id, attempt, change := w.row("operations", "id"), w.id(), w.id()
		return fmt.Sprintf(`DO $$ DECLARE o indoubt.operations; BEGIN
			SELECT * INTO o FROM indoubt.operations WHERE id = %s FOR UPDATE;
			UPDATE indoubt.grants SET consumed_at = clock_timestamp(), attempt_id = '%[2]s' WHERE operation_id = o.id AND consumed_at IS NULL AND voided_at IS NULL;
			UPDATE indoubt.operations SET state = 'pending', live_attempt = '%[2]s', attempt_count = attempt_count + 1, version = version + 1, deadline_at = clock_timestamp() + '1 hour'::interval,
			       change_id = '%[3]s', change_of = '%[3]s', change_verb = 'begin', actor = 'nightly', reason = 'again', updated_at = clock_timestamp(), settled_at = NULL WHERE id = o.id;
			INSERT INTO indoubt.attempts (id, operation_id, n, grant_id, started_at, deadline_at)
			SELECT '%[2]s', id, attempt_count, coalesce((SELECT g.id FROM indoubt.grants g WHERE g.attempt_id = '%[2]s'), ''), clock_timestamp(), deadline_at FROM indoubt.operations WHERE id = o.id;
			END $$`, id, attempt, change)
	case n == 10:
		return `UPDATE indoubt.open_operations SET digest = 'd', miss_value = ` + anyOf(w, "0", "2", "5") + `, rank = ` + anyOf(w, "1", "7") + ` WHERE seq = ` + w.row("open_operations", "seq")
	case n == 11:
		return anyOf(w, foldSQL, `BEGIN; `+settle(w.row("operations", "id"))+`; SELECT pg_sleep(0.01); `+anyOf(w, "COMMIT", "ROLLBACK"))
	}
	table := anyOf(w, randomTables...)
	columns := w.columns[table]
	set := func() string {
		var out []string
		set := map[string]bool{"change_of": true} // one that sets it keeps the whole record itself
		for range 1 + w.r.IntN(4) {
			if c := anyOf(w, columns...); !set[c.name] {
				out, set[c.name] = append(out, c.name+" = "+w.value(table, c)), true
			}
		}
		if len(out) == 0 {
			return columns[0].name + " = " + columns[0].name
		}
		return strings.Join(out, ", ")
	}
	key := columns[0].name
	where := anyOf(w, "", " WHERE "+key+" = "+w.row(table, key))
	switch n := w.r.IntN(10); {
	case n == 0:
		return anyOf(w, "DELETE FROM indoubt."+table+where, "TRUNCATE indoubt."+table+" CASCADE")
	case n < 4:
		var names, values []string
		for _, c := range columns {
			if c.name != "change_of" && (len(names) == 0 || w.r.IntN(3) > 0) {
				names, values = append(names, c.name), append(values, w.value(table, randomColumn{c.name, strings.NewReplacer("bigint", "new", "double precision", "new", "xid8", "new").Replace(c.kind)}))
			}
		}
		return fmt.Sprintf("INSERT INTO indoubt.%s (%s) VALUES (%s)%s", table, strings.Join(names, ", "), strings.Join(values, ", "),
			anyOf(w, "", "", " ON CONFLICT DO NOTHING"))
	}
	return "UPDATE indoubt." + table + " SET " + set() + where
}

// Whatever sixteen foreign connections say at once, the invariants hold, and what is
// derived is what it is made from. INDOUBT_SQL_STATEMENTS is how many statements are
// tried (800 when it is not set), INDOUBT_SQL_SEED which ones.
func TestInvariantsUnderRandomSQL(t *testing.T) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	const writers, each = 16, 25
	ctx, url := context.Background(), made(t)
	seed := number("INDOUBT_SQL_SEED", 1)
	columns := map[string][]randomColumn{}
	for line := range strings.Lines(psql(t, url, `SELECT c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, NULL) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'indoubt'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND a.attgenerated = '' ORDER BY c.relname, a.attnum`)) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		columns[f[0]] = append(columns[f[0]], randomColumn{f[1], f[2]})
	}
	tables := strings.Fields("operations attempts reads events marks grants holds")
	check := func(round int) {
		t.Helper()
		var script strings.Builder
		for name, query := range mustNotBe {
			fmt.Fprintf(&script, "SELECT '%s: ' || x FROM (%s) AS y (x) LIMIT 3;\n", name, query)
		}
		for table, query := range frozen {
			if round > 0 {
				fmt.Fprintf(&script, "SELECT '%s changed: ' || x FROM (%s) AS y (x) LIMIT 3;\n", table, query)
			}
		}
		script.WriteString("DROP SCHEMA IF EXISTS was CASCADE; CREATE SCHEMA was;\n")
		for _, table := range tables {
			fmt.Fprintf(&script, "CREATE TABLE was.%[1]s AS SELECT * FROM indoubt.%[1]s;\n", table)
		}
		if out := psql(t, url, "SET client_min_messages = error;\n"+script.String()); out != "" {
			t.Fatalf("INDOUBT_SQL_SEED=%d, round %d: %s", seed, round, out)
		}
	}
	var mu sync.Mutex
	seen := map[string]int{}
	ws := make([]*writing, writers)
	for i := range ws {
		ws[i] = &writing{r: rand.New(rand.NewPCG(uint64(seed), uint64(i))), name: fmt.Sprintf("w%d", i), columns: columns}
	}
	psql(t, url, guarded)
	check(0)
	for round := range max(1, number("INDOUBT_SQL_STATEMENTS", 800)/writers/each) {
		var wg sync.WaitGroup
		for _, w := range ws {
			wg.Go(func() {
				conn, err := pgconn.Connect(ctx, url)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close(ctx)
				for range each {
					statement := w.statement()
					_, err := conn.Exec(ctx, statement).ReadAll()
					if err != nil && conn.TxStatus() != 'I' {
						_, _ = conn.Exec(ctx, "ROLLBACK").ReadAll() // what it fails with is seen next
					}
					said := "accepted"
					if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
						said = refused.Code
						if refused.Code == "XX000" || strings.HasPrefix(refused.Code, "42") && refused.Code != "42804" && refused.Code != "42883" {
							t.Errorf("%s says %v", statement, err)
						}
					} else if err != nil {
						t.Errorf("%s: %v", statement, err)
						return
					}
					mu.Lock()
					seen[said]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		check(round + 1)
	}
	t.Logf("seed %d: %v", seed, seen)
	need.Must(t, seen["accepted"] >= 100 && seen["IN001"] >= 50, "the statements are too wild or too tame: %v", seen)
}
