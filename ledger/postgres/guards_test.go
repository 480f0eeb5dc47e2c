//go:build soak && unported

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// guarded is a ledger with one operation in each state the guards speak of, made by
// SQL alone: some as a foreign writer leaves it, some as indoubt does.
const guarded = `
SET search_path = indoubt;
INSERT INTO operations (id, kind, key, input, change_id, deadline_at, source, actor)
SELECT id, 'stripe.charge', id || '-key', '{}', id || '-c', now() + '1 hour'::interval, 's', 'billing'
  FROM unnest(ARRAY['pending', 'uncertain', 'committed', 'failed', 'granted', 'retired', 'answered', 'joined', 'twice']) AS id;
INSERT INTO operations (id, kind, key, created_at, updated_at, started_at, deadline_at, live_attempt, attempt_count, change_id, change_of, change_verb, actor)
VALUES ('left', 'stripe.charge', 'left-key', now(), now(), now(), now() + '1 hour'::interval, 'left.1', 1, 'left-c', 'left-c', 'begin', 'billing');
INSERT INTO attempts (id, operation_id, n, started_at, deadline_at, boot_id, pid_ns, uid, tree)
VALUES ('left.1', 'left', 1, now(), (SELECT deadline_at FROM operations WHERE id = 'left'), 'boot', 'ns', 7, 'open');
INSERT INTO operations (id, kind, key, created_at, deadline_at, change_id, actor)
VALUES ('overdue', 'stripe.charge', 'overdue-key', now() - '2 hours'::interval, now() - '1 hour'::interval, 'overdue-c', 'billing');
UPDATE operations SET state = 'uncertain', error_class = 'timeout', change_id = id || '-d', actor = 'billing', reason = 'lost' WHERE id IN ('uncertain', 'granted', 'answered', 'left', 'joined', 'twice');
UPDATE operations SET state = 'committed', receipt = 'r', change_id = id || '-d', actor = 'billing', reason = 'answered' WHERE id IN ('committed', 'retired');
UPDATE operations SET state = 'committed', receipt = 'r', change_id = id || '-e', actor = 'billing', reason = 'answered' WHERE id = 'answered';
UPDATE operations SET state = 'failed', change_id = 'failed-d', actor = 'billing', reason = 'refused', change_detail = '{"proof":"refused"}' WHERE id = 'failed';
UPDATE operations SET key_live = false WHERE id = 'retired';
UPDATE operations SET state = 'uncertain', version = version + 1, live_attempt = '', deadline_at = NULL, doubted = true, doubted_at = now(), ended_at = deadline_at, updated_at = now(),
       change_id = 'overdue-d', change_of = 'overdue-d', change_verb = 'expire', actor = 'clock', reason = 'no outcome was recorded' WHERE id = 'overdue';
UPDATE attempts SET outcome = 'uncertain', ended_at = deadline_at WHERE id = 'overdue.1';
INSERT INTO grants (id, operation_id, version, basis, sender, actor, reason, created_at, expires_at) VALUES ('grant', 'granted', 2, 'risk_accepted', 'pipeline', 'ann', 'must', now(), now() + '1 hour'::interval);
INSERT INTO grants (id, operation_id, version, basis, sender, actor, reason, created_at, expires_at) VALUES ('used', 'twice', 2, 'risk_accepted', 'pipeline', 'ann', 'must', now(), now() + '1 hour'::interval);
UPDATE grants SET consumed_at = now(), attempt_id = 'twice.2' WHERE id = 'used';
UPDATE operations SET state = 'pending', live_attempt = 'twice.2', attempt_count = 2, version = version + 1, deadline_at = now() + '1 hour'::interval,
       change_id = 'twice-g', change_of = 'twice-g', change_verb = 'begin', reason = 'attempt 2' WHERE id = 'twice';
INSERT INTO attempts (id, operation_id, n, grant_id, basis, started_at, deadline_at) SELECT 'twice.2', 'twice', 2, 'used', 'risk_accepted', now(), deadline_at FROM operations WHERE id = 'twice';
INSERT INTO reads (id, operation_id, began_at, ended_at, verdict, reason) VALUES ('read', 'uncertain', now(), now(), 'cannot_tell', 'slow');
INSERT INTO holds (scope, actor, reason, change_id) VALUES ('all', 'ann', 'night', 'hold-c');
INSERT INTO events (id, run, verb, actor, reason, version, detail) VALUES ('run', 'run', 'run', 'ann', 'over', 2, '{"run":{"state":"running","verb":"deny"},"set":[{"operation":"uncertain","change":"out"}]}');
INSERT INTO events (id, operation_id, run, verb, actor, detail) VALUES ('out', 'uncertain', 'run', 'left_out', 'ann', '{"came":"skipped"}');
INSERT INTO events (id, outage, verb, actor) VALUES ('outage-e', 'outage', 'outage_opened', 'indoubt');
INSERT INTO outages (id, scope, gap_ms, opened_at, first_at, last_at) VALUES ('outage', 'kind:stripe.charge', 60000, now(), now(), now());
UPDATE open_operations SET digest = 'd', rank = 3, miss_value = 2 WHERE error_class = 'timeout';
`

// refusals are statements that a ledger refuses, and a part of what it says: those that are
// the same in a file, and those that are said in PostgreSQL's words.
var refusals = func() []ledgertest.Attack {
	insert := func(id, key, created, deadline, more string) string {
		names, values, _ := strings.Cut(more, "|")
		return `INSERT INTO operations (id, kind, key, input, created_at, updated_at, deadline_at, source, actor` + names + `)
			VALUES ('` + id + `', 'stripe.charge', '` + key + `', '{}', ` + created + `, now(), ` + deadline + `, 's', 'eve'` + values + `)`
	}
	fresh := func(more string) string { return insert("n", "n", "now()", "now() + '1 minute'::interval", more) }
	beside := func(verb string) string {
		return ", key_live, change_id, change_of, change_verb, live_attempt, attempt_count|, false, 'x', 'x', '" + verb + "', 'a', 1"
	}
	const elsewhere = `RESET indoubt.home; SET session_replication_role = replica; UPDATE lineages SET lineage = 'x'; SET session_replication_role = origin; `
	const change = `, change_id = 'x', actor = 'eve', reason = 'why'`
	const attempt = `INSERT INTO attempts (id, operation_id, n, started_at, deadline_at) VALUES `
	const grant = `INSERT INTO grants (id, operation_id, version, basis, actor, created_at, expires_at) VALUES `
	const read = `INSERT INTO reads (id, operation_id, began_at, ended_at, verdict) VALUES `
	return append(slices.Clone(ledgertest.GuardAttacks), []ledgertest.Attack{
		{"second operation of an id", insert("committed", "other", "now()", "now() + '1 minute'::interval", ""), "never replaced"},
		{"replaced operation", fresh("") + ` ON CONFLICT (id) DO NOTHING; ` + insert("committed", "other", "now()", "now() + '1 minute'::interval", "") + ` ON CONFLICT (id) DO UPDATE SET token = 'n'`, "never replaced"},
		{"replaced operation of indoubt's own", insert("committed", "other", "now()", "now() + '1 minute'::interval", ", change_id, change_of, live_attempt, attempt_count|, 'x', 'x', 'a', 1") + ` ON CONFLICT (id) DO UPDATE SET token = 'n'`, "never change"},
		{"second live key (I4)", insert("n", "uncertain-key", "now()", "now() + '1 minute'::interval", ""), "key is in use"},
		{"second live key of indoubt's own (I4)", insert("n", "uncertain-key", "now()", "now() + '1 minute'::interval", ", change_id, change_of, live_attempt, attempt_count|, 'x', 'x', 'a', 1"), "operations_by_key"},
		{"born committed", fresh(", state|, 'committed'"), "begins as pending"},
		{"deadline before it began", insert("n", "n", "now()", "now() - '1 second'::interval", ""), "must come after"},
		{"deadline in two years", insert("n", "n", "now()", "now() + '2 years'::interval", ""), "within a year"},
		{"no deadline", insert("n", "n", "now()", "NULL", ""), "pending_has_a_deadline"},
		{"no deadline ever", insert("n", "n", "now()", "'infinity'", ""), "within a year"},
		{"blank key", insert("n", ` '||E'\t\n'||'`, "now()", "now() + '1 minute'::interval", ""), "key_is_given"},
		{"no actor", strings.Replace(fresh(""), "'eve'", "''", 1), "actor_is_named"},
		{"input that is not JSON", strings.Replace(fresh(""), "'{}'", "'{'", 1), "invalid input syntax for type json"},
		{"used change id (I8)", fresh(", change_id|, 'committed-c'"), "in the history already"},
		{"used change id of indoubt's own (I8)", fresh(", change_id, change_of, live_attempt, attempt_count|, 'committed-c', 'committed-c', 'a', 1"), "events_id_key"},
		{"no scope", fresh(", scope|, NULL"), "not-null"},

		{"another input", `UPDATE operations SET input = '[]' WHERE id = 'pending'`, "never change"},
		{"no input", `UPDATE operations SET input = NULL WHERE id = 'pending'`, "never change"},
		{"another birth", `UPDATE operations SET created_at = created_at + '1 second'::interval WHERE id = 'pending'`, "never change"},
		{"another number", `UPDATE operations SET seq = 99 WHERE id = 'pending'`, "never changes"},
		{"another id and key in a row", `UPDATE operations SET (title, key) = ('n', 'n') WHERE id = 'pending'`, "never change"},
		{"born in conflict", fresh(", conflict|, 'duplicate'"), "begins as pending"},
		{"born parked", fresh(", parked_until|, now()"), "begins as pending"},
		{"retry without a grant (I5)", `UPDATE operations SET state = 'pending', live_attempt = 'n', attempt_count = 2, version = version + 1, deadline_at = now() + '1 minute'::interval, change_of = 'x'` + change + ` WHERE id = 'uncertain'`, "needs a grant"},
		{"born without its key", fresh(", key_live|, false"), "begins as pending"},
		{"by another than indoubt, without its key", `SET LOCAL indoubt.sent = 'on'; ` + insert("n", "uncertain-key", "now()", "now() + '1 minute'::interval", ", key_live, change_verb|, false, 'begin'"), "key is in use"},
		{"without its key and its outcome", insert("n", "uncertain-key", "now()", "now() + '1 minute'::interval", beside("begin")), "begins as pending"},
		{"without its key, which no one has", `SET LOCAL indoubt.sent = 'on'; ` + fresh(beside("begin")), "begins as pending"},
		{"emptied operations", `TRUNCATE operations CASCADE`, "never deleted"},

		{"second attempt in flight (I3)", attempt + `('n', 'pending', 2, now(), now() + '1 minute'::interval)`, "in flight"},
		{"attempt of a settled operation", attempt + `('n', 'committed', 2, now(), now() + '1 minute'::interval)`, "live_attempt of a pending"},
		{"attempt of nothing", attempt + `('n', 'n', 1, now(), now() + '1 minute'::interval)`, "live_attempt of a pending"},
		{"replaced attempt", attempt + `('committed.1', 'committed', 1, now(), now() + '1 minute'::interval) ON CONFLICT (id) DO UPDATE SET outcome = 'failed'`, "never replaced"},
		{"ended attempt in flight again", `UPDATE attempts SET outcome = '', ended_at = NULL WHERE id = 'committed.1'`, "does not change"},
		{"ended attempt's end", `UPDATE attempts SET ended_at = NULL WHERE id = 'committed.1'`, "does not change"},
		{"late answer to an answered attempt", `UPDATE attempts SET late_outcome = 'failed', late_at = now() WHERE id = 'committed.1'`, "does not change"},
		{"attempt of another user of the database", `UPDATE attempts SET db_user = 'eve' WHERE id = 'pending.1'`, "never change"},
		{"emptied attempts", `TRUNCATE attempts`, "never deleted"},
		{"attempt with a grant that is not", `UPDATE holds SET released_at = now(); UPDATE operations SET state = 'pending', live_attempt = 'failed.2', attempt_count = 2, version = version + 1, deadline_at = now() + '1 hour'::interval,
			change_id = 'x', change_of = 'x', change_verb = 'begin', reason = 'attempt 2' WHERE id = 'failed';
			INSERT INTO attempts (id, operation_id, n, grant_id, started_at, deadline_at) SELECT 'failed.2', 'failed', 2, 'used', now(), deadline_at FROM operations WHERE id = 'failed'`, "does not exist"},
		{"failed while an earlier attempt is unknown (I2)", `UPDATE operations SET state = 'failed'` + change + ` WHERE id = 'twice'`, "is still unknown"},
		{"mark of nothing", `INSERT INTO marks (value, operation_id) VALUES ('m', 'n')`, "that is recorded"},
		{"emptied marks", `TRUNCATE marks`, "never deleted"},

		{"replaced read", read + `('read', 'uncertain', now(), now(), 'landed')`, "never replaced"},
		{"emptied reads", `TRUNCATE reads`, "never deleted"},
		{"longer grant", `UPDATE grants SET expires_at = 'infinity'`, "never changes"},
		{"grant of another user of the database", `UPDATE grants SET db_user = 'eve'`, "never changes"},
		{"grant consumed by no attempt", `UPDATE grants SET consumed_at = created_at WHERE id = 'grant'`, "consumed_by_an_attempt"},
		{"grant used up", `UPDATE grants SET voided_at = now(), void_reason = 'n', consumed_at = NULL, attempt_id = '' WHERE id = 'used'`, "used up or void"},
		{"replaced grant", grant + `('grant', 'granted', 1, 'proof', 'eve', now(), now())`, "never replaced"},
		{"grant for what landed", grant + `('n', 'committed', 1, 'proof', 'eve', now(), now())`, "uncertain or failed"},
		{"grant for nothing", grant + `('n', 'n', 1, 'proof', 'eve', now(), now())`, "uncertain or failed"},
		{"emptied grants", `TRUNCATE grants`, "never deleted"},
		{"emptied history (I8)", `TRUNCATE events`, "never deleted"},
		{"replaced event id (I8)", `INSERT INTO events (id, verb, actor) VALUES ('pending-c', 'note', 'eve') ON CONFLICT (id) DO UPDATE SET actor = 'eve'`, "in the history already"},
		{"hold of another user of the database", `UPDATE holds SET db_user = 'eve'`, "never changes otherwise"},
		{"emptied holds", `TRUNCATE holds`, "never deleted"},
		{"operation signed as the machine", strings.Replace(fresh(""), "'eve'", "'checks'", 1), "names of indoubt"},
		{"operation signed as a machine by a person", strings.Replace(fresh(", machine, change_id, change_of, live_attempt, attempt_count|, false, 'n', 'n', 'a', 1"), "'eve'", "' Checks '", 1), "names of indoubt"},

		{"operation with a number", fresh(", seq|, 9223372036854775807"), "leave the number out"},
		{"operation numbered below", fresh(", seq|, -1"), "leave the number out"},
		{
			"begun under an older policy",
			`INSERT INTO events (id, verb, actor, version, detail) VALUES ('p', 'policy', 'ann', 1, '{"digest":"d","files":[]}');
			INSERT INTO events (id, verb, actor, version, detail) VALUES ('q', 'policy', 'ann', 2, '{"digest":"e","files":[]}');
			INSERT INTO attempts (id, operation_id, n, started_at, deadline_at, policy) VALUES ('n', 'pending', 2, now(), now() + '1 minute'::interval, 1)`,
			"an older policy",
		},
		{
			"not there, by a policy that is not in force",
			`INSERT INTO events (id, verb, actor, version, detail) VALUES ('p', 'policy', 'ann', 1, '{"digest":"d","files":[]}');
			INSERT INTO reads (id, operation_id, began_at, ended_at, verdict, digest) VALUES ('n', 'uncertain', now(), now(), 'not_there', 'e')`,
			"another one is in force",
		},
		{"read with a number", `INSERT INTO reads (rowid, id, operation_id, began_at, ended_at, verdict) VALUES (7, 'n', 'uncertain', now(), now(), 'not_there')`, "leave the number out"},
		{"grant with a number", `INSERT INTO grants (rowid, id, operation_id, version, basis, actor, created_at, expires_at) VALUES (7, 'n', 'uncertain', 1, 'proof', 'eve', now(), now())`, "leave the number out"},
		{"born with a version", fresh(", version|, 9223372036854775807"), "begins as pending"},

		{"first attempt without a row", fresh(", live_attempt, attempt_count|, 'mine', 1"), "the database records the first attempt"},
		{"another attempt without a row", `UPDATE operations SET state = 'pending', live_attempt = 'n', attempt_count = 2, deadline_at = now() + '1 minute'::interval` + change + ` WHERE id = 'failed'`, "is recorded by indoubt"},
		{"attempt ended by itself", `UPDATE attempts SET outcome = 'failed', proof = 'refused', ended_at = now() WHERE id = 'pending.1'`, "with its operation"},
		{"attempt's deadline by itself", `UPDATE attempts SET deadline_at = deadline_at - '1 second'::interval WHERE id = 'pending.1'`, "with its operation"},
		{"earlier deadline", `UPDATE operations SET deadline_at = deadline_at - '1 second'::interval WHERE id = 'pending'`, "does not become earlier"},
		{"no deadline any more", `UPDATE operations SET deadline_at = NULL WHERE id = 'pending'`, "does not become earlier"},
		{"doubt at no time", `UPDATE operations SET doubted_at = NULL WHERE id = 'uncertain'`, "what was in doubt"},
		{"doubt to come", `UPDATE operations SET doubted_at = '2099-01-01' WHERE id = 'pending'`, "do not lie in the future"},
		{"end to come", `UPDATE operations SET ended_at = '2099-01-01' WHERE id = 'pending'`, "do not lie in the future"},
		{"earlier end (I6)", `UPDATE operations SET ended_at = ended_at - '1 second'::interval WHERE id = 'uncertain'`, "what was in doubt"},
		{"no end (I6)", `UPDATE operations SET ended_at = NULL WHERE id = 'uncertain'`, "what was in doubt"},
		{"another start", `UPDATE operations SET started_at = NULL WHERE id = 'uncertain'`, "what was in doubt"},
		{"read of nothing", read + `('n', 'n', now(), now(), 'not_there')`, "that is recorded"},
		{"time that no clock says", `UPDATE operations SET settled_at = '-infinity' WHERE id = 'pending'`, "times_are_in_range"},

		{"list emptied", `TRUNCATE open_operations`, "kept by the database"},
		{"list row that cannot be summed", `UPDATE open_operations SET rank = 'NaN'`, "amounts_can_be_summed"},
		{"list row moved", `UPDATE open_operations SET seq = 1 WHERE seq = (SELECT max(seq) FROM open_operations)`, "kept by the database"},
		{"list row of what is settled", `INSERT INTO open_operations (seq, search, kind, state, error_class, actor, hands, conflict, doubted, hands_off, parked_until, created_at, updated_at, deadline_at, doubted_at, recheck_at, granted_at, grant_until)
			SELECT seq, words || E'\n\n', kind, state, error_class, actor, hands, conflict, doubted, hands_off, parked_until, created_at, updated_at, deadline_at, doubted_at, recheck_at, granted_at, grant_until FROM open_source WHERE state = 'committed'`, "kept by the database"},
		{"begun in another database", elsewhere + fresh(""), "may be missing"},
		{"allowed in another database", elsewhere + grant + `('n', 'uncertain', 2, 'proof', 'eve', now(), now() + '1 minute'::interval)`, "may be missing"},
		{"home moved", `UPDATE lineages SET lineage = 'x'`, "adopted once in each database"},
		{"home forgotten", `DELETE FROM lineages`, "databases of a ledger are never deleted"},
		{"history renumbered", `UPDATE events SET xid = '4'`, "history never changes"},
		{"history rewritten with a number", `UPDATE events SET xid = '3', reason = 'x'`, "history never changes"},
	}...)
}()

func TestGuards(t *testing.T) {
	ctx := context.Background()
	url := made(t)
	psql(t, url, guarded)
	conn, err := pgconn.Connect(ctx, url)
	need.OK(t, err)
	defer conn.Close(ctx)
	exec := func(script string) error {
		_, err := conn.Exec(ctx, script).ReadAll()
		return err
	}
	need.OK(t, exec(`SET search_path = indoubt`))
	if got := psql(t, url, `SELECT * FROM indoubt.deviations()`); got != "" {
		t.Fatalf("before anything: %s", got)
	}
	before := dump(t, url)
	for _, g := range refusals {
		err := exec(g.SQL)
		if err == nil {
			t.Errorf("%s: not refused", g.Name)
		} else if !strings.Contains(err.Error(), g.Says) {
			t.Errorf("%s: refused with %q, want %q", g.Name, err, g.Says)
		}
	}
	if got := dump(t, url); got != before {
		t.Errorf("something changed:\n%s\nwas\n%s", got, before)
	}
}

// dump is everything that must not have changed, a line for each row.
func dump(t *testing.T, url string) string {
	t.Helper()
	var script strings.Builder
	for _, table := range strings.Fields("operations attempts marks reads grants events holds open_operations totals outages") {
		fmt.Fprintf(&script, "SELECT '%s', t.* FROM indoubt.%s t ORDER BY 2, 3;\n", table, table)
	}
	return psql(t, url, script.String())
}

// tried is what the statements of the tests are refused with.
var tried = func() (says []string) {
	for _, r := range refusals {
		says = append(says, r.Says)
	}
	for _, a := range ledgertest.RedactionAttacks {
		says = append(says, a.Says)
	}
	for _, a := range attacks {
		says = append(says, a.says)
	}
	return says
}()

// A writer that writes the whole row, as it had read it or as it thinks it should be,
// leaves the doubt and the end that one does who writes what is documented.
func TestI6_WholeRows(t *testing.T) {
	url := made(t)
	var script strings.Builder
	script.WriteString("SET search_path = indoubt;\n")
	const whole = `state = 'uncertain', error_class = 'timeout', live_attempt = '', deadline_at = NULL, version = version + 1`
	for id, set := range map[string]string{
		"narrow":  `state = 'uncertain', error_class = 'timeout'`,
		"whole":   whole,
		"stale":   whole + `, doubted = false, doubted_at = NULL, ended_at = created_at, updated_at = created_at, change_of = ''`,
		"claimed": whole + `, change_of = 'c-claimed'`,
		"settled": `state = 'uncertain', error_class = 'timeout', live_attempt = '', version = version + 1, settled_at = now() - '1 minute'::interval, by_answer = true, attempt_count = 1`,
	} {
		fmt.Fprintf(&script, `INSERT INTO operations (id, kind, key, created_at, deadline_at, actor) VALUES ('%[1]s', 'k', '%[1]s', now() - '1 minute'::interval, now() + '1 hour'::interval, 'nightly');
			SELECT clock_timestamp()::timestamptz(3) AS before \gset
			UPDATE operations SET %[2]s, change_id = 'c-' || id, actor = 'nightly', reason = 'timeout' WHERE id = '%[1]s';
			SELECT o.id, o.state, o.doubted, o.doubted_at >= :'before', o.ended_at >= :'before', o.version, o.by_answer, o.live_attempt, o.deadline_at, o.settled_at, o.error_class,
			       a.outcome, a.ended_at >= :'before', a.error_class, h.class
			  FROM operations o JOIN attempts a ON a.operation_id = o.id LEFT JOIN open_operations h ON h.seq = o.seq WHERE o.id = '%[1]s';
		`, id, set)
	}
	for line := range strings.Lines(psql(t, url, script.String())) {
		if id, got, _ := strings.Cut(strings.TrimSpace(line), "|"); got != "uncertain|t|t|t|2|f||||timeout|uncertain|t|timeout|ripe" {
			t.Errorf("%s: %s", id, got)
		}
	}
}

// A deadline that plain SQL extends is the attempt's too: it would be taken for ended at
// the old one, while it is being sent.
func TestI6_AnExtendedDeadlineIsTheAttempts(t *testing.T) {
	got := psql(t, made(t), guarded+`
		UPDATE operations SET deadline_at = deadline_at + '1 hour'::interval WHERE state = 'pending';
		SELECT count(*), bool_and(a.deadline_at = o.deadline_at), min(a.deadline_at) > now() + '90 minutes'::interval FROM operations o JOIN attempts a ON a.id = o.live_attempt`)
	need.That(t, got == "2|t|t", "%v", got)
}

// A guard that asks another table waits for who is changing it.
func TestGuardsWaitForTheOperation(t *testing.T) {
	ctx, url := context.Background(), made(t)
	psql(t, url, guarded)
	connect := func() *pgconn.PgConn {
		conn, err := pgconn.Connect(ctx, url)
		need.OK(t, err)
		t.Cleanup(func() { conn.Close(ctx) })
		if _, err := conn.Exec(ctx, `SET search_path = indoubt`).ReadAll(); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first, second, third := connect(), connect(), connect()
	waits := func() bool {
		results, err := third.Exec(ctx, fmt.Sprintf("SELECT FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'", second.PID())).ReadAll()
		return err == nil && len(results[0].Rows) > 0
	}
	for _, c := range []struct{ name, first, second, says string }{
		{"a grant for what lands meanwhile", `UPDATE operations SET state = 'committed', receipt = 'r', change_id = 'x1', actor = 'eve', reason = 'why' WHERE id = 'left'`,
			`INSERT INTO grants (id, operation_id, version, basis, actor, created_at, expires_at) VALUES ('n', 'left', 1, 'proof', 'eve', now(), now() + '1 hour'::interval)`, "uncertain or failed"},
		{"a key that begins meanwhile (I4)", `INSERT INTO operations (id, kind, key, deadline_at, actor) VALUES ('k1', 'k', 'k', now() + '1 hour'::interval, 'eve')`,
			`INSERT INTO operations (id, kind, key, deadline_at, actor) VALUES ('k2', 'k', 'k', now() + '1 hour'::interval, 'eve')`, "operations_by_key"},
		{"an attempt that ends meanwhile", `UPDATE operations SET state = 'uncertain', change_id = 'x2', actor = 'eve', reason = 'why' WHERE id = 'pending'`,
			`UPDATE operations SET state = 'committed', change_id = 'x3', actor = 'eve', reason = 'why' WHERE id = 'pending' AND live_attempt = id || '.1'`, "UPDATE 0"},
	} {
		if _, err := first.Exec(ctx, "BEGIN; "+c.first).ReadAll(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		said := make(chan string, 1)
		go func() {
			results, err := second.Exec(ctx, c.second).ReadAll()
			if err == nil {
				said <- results[0].CommandTag.String()
				return
			}
			said <- err.Error()
		}()
		for !waits() && len(said) == 0 {
			time.Sleep(time.Millisecond)
		}
		if len(said) > 0 {
			t.Errorf("%s: it did not wait", c.name)
		}
		if _, err := first.Exec(ctx, "COMMIT").ReadAll(); err != nil {
			t.Fatal(err)
		}
		if got := <-said; !strings.Contains(got, c.says) {
			t.Errorf("%s: %s, want %q", c.name, got, c.says)
		}
	}
}

// A key that no index takes is refused in words, and is not sent.
func TestAKeyThatIsTooLong(t *testing.T) {
	s := opened(t, made(t), Options{})
	var key []rune
	for range 2000 {
		key = append(key, 0x4e00+rand.Int32N(20_000))
	}
	_, err := ledger.Begin(ctx, s, begun(string(key), 0))
	need.That(t, errors.Is(err, ledger.ErrGuard) && strings.Contains(err.Error(), "too long for PostgreSQL to find it by") && !strings.Contains(err.Error(), "SQLSTATE"), "%v", err)
}
