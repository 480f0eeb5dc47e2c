//go:build unported

package postgres

import (
	"fmt"
	"strings"
	"testing"

	"indoubt/ledger/postgres/pgtest"
)

// withRoles is the URL of a ledger with roles. Its users are ci and cron, who write, eng,
// ann, who decides, bob, who looks, tom, who looks and was given more by hand, and out, who
// has no role.
func withRoles(t *testing.T) string {
	t.Helper()
	return pgtest.From(t, "roles", func(url string) error {
		out, err := pgtest.Psql(t, url, "BEGIN;\n"+schema()+rolesSQL+rolesSQL+`COMMIT;
			CREATE ROLE ci LOGIN; CREATE ROLE cron LOGIN; CREATE ROLE eng LOGIN; CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE out LOGIN; CREATE ROLE tom LOGIN;
			GRANT indoubt_writer TO ci, cron; GRANT indoubt_engine TO eng; GRANT indoubt_operator, indoubt_writer TO ann; GRANT indoubt_reader TO bob, tom;
			GRANT INSERT ON indoubt.operations, indoubt.events, indoubt.reads TO tom;`)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

const (
	beginSQL = `INSERT INTO indoubt.operations (id, kind, key, deadline_at, actor) VALUES ('%[1]s', 'mail.send', '%[1]s', clock_timestamp() + '1 hour'::interval, 'nightly');`
	aimedSQL = `INSERT INTO indoubt.operations (id, kind, key, target, deadline_at, actor)
		VALUES ('%[1]s', 'mail.send', '%[1]s', 'web', clock_timestamp() + '1 hour'::interval, 'nightly');`
	loseSQL = `UPDATE indoubt.operations SET state = 'uncertain', error_class = 'timeout', change_id = 'lost-' || id, actor = 'nightly', reason = 'no answer' WHERE id = '%s';`
	landSQL = `UPDATE indoubt.operations SET state = 'committed', receipt = 'r', change_id = 'answered-' || id, actor = 'nightly', reason = 'answered' WHERE id = '%s';`
)

// byOwn is a change as indoubt writes it.
func byOwn(id, verb, state, more string) string {
	return fmt.Sprintf(`UPDATE indoubt.operations SET state = '%s', version = version + 1, change_id = '%s-' || id, change_of = '%s-' || id, change_verb = '%s',
		actor = 'x', reason = 'said so', machine = false, updated_at = clock_timestamp()%s WHERE id = '%s';`, state, verb, verb, verb, more, id)
}

const (
	person   = "for a person to decide"
	denied   = "permission denied"
	holdSQL  = `INSERT INTO indoubt.holds (scope, actor, reason) VALUES ('%s', 'x', 'why')`
	grantSQL = `INSERT INTO indoubt.grants (id, operation_id, version, basis, actor, created_at, expires_at) VALUES ('%s', 'doubt', 2, '%s', 'x', now(), now() + '1 hour'::interval)`
	ownSQL   = `INSERT INTO indoubt.grants (id, operation_id, version, basis, key_works, actor, created_at, expires_at, consumed_at, attempt_id)
		VALUES ('own', 'again', 2, 'key_safe', true, 'x', now(), now() + '1 hour'::interval, %s, 'again.2');`
	readSQL = `INSERT INTO indoubt.reads (id, operation_id, began_at, ended_at, verdict) VALUES ('%s', 'doubt', now(), now(), 'cannot_tell')`
)

// expireSQL ends an operation at its deadline, endSQL an attempt of one; againSQL begins
// another attempt.
func expireSQL(id, state, more string) string {
	return byOwn(id, "expire", state, ", doubted = true, doubted_at = clock_timestamp(), ended_at = greatest(ended_at, deadline_at), live_attempt = '', deadline_at = NULL"+more)
}

func endSQL(attempt, more string) string {
	return fmt.Sprintf(`UPDATE indoubt.attempts SET outcome = 'uncertain', ended_at = deadline_at%s WHERE id = '%s';`, more, attempt)
}

func againSQL(id, more string) string {
	return byOwn(id, "begin", "pending", ", live_attempt = id || '.2', attempt_count = 2, deadline_at = clock_timestamp() + '1 minute'::interval * (id <> 'twice')::int"+more)
}

// redactSQL takes the text out of an operation.
func redactSQL(id string) string {
	return fmt.Sprintf(`UPDATE indoubt.operations SET version = version + 1, change_id = 'redact-' || id, change_of = 'redact-' || id, change_verb = 'redact', actor = 'x',
		reason = 'request 7', machine = false, updated_at = now(), redacted_at = now(), redacted_by = 'x', redacted = true, result = NULL WHERE id = '%s';`, id)
}

// verdictSQL is a check of the operation retried.
func verdictSQL(id, verdict string) string {
	return fmt.Sprintf(`INSERT INTO indoubt.reads (id, operation_id, began_at, ended_at, verdict) VALUES ('%s', 'retried', now(), now(), '%s');`, id, verdict)
}

// outageSQL opens an outage.
const outageSQL = `INSERT INTO indoubt.outages (id, scope, gap_ms, opened_at, first_at, last_at) VALUES ('i', 'kind:k', 1000, now(), now(), now())`

// attacks are what a role is refused, and a part of what is said.
var attacks = []struct{ name, user, script, says string }{
	{"a stranger looks", "out", `SELECT * FROM indoubt.operations`, denied},
	{"a reader records", "bob", fmt.Sprintf(beginSQL, "n"), denied},
	{"a reader settles", "bob", fmt.Sprintf(landSQL, "flying"), denied},
	{"a reader remarks", "bob", `INSERT INTO indoubt.events (id, verb, actor) VALUES ('n', 'note', 'bob')`, denied},
	{"a reader sums up", "bob", `INSERT INTO indoubt.total VALUES ('', 'place', '9:9:', 0)`, denied},
	{"a writer sums up", "ci", `INSERT INTO indoubt.total VALUES ('', 'place', '9:9:', 0)`, denied},
	{"a writer changes a sum", "ci", `UPDATE indoubt.total SET n = 0`, denied},
	{"a reader lists by hand", "bob", `SELECT indoubt.list(1, true, true)`, denied},
	{"a reader makes a ledger anew", "bob", `SELECT indoubt.rebuild()`, denied},

	{"a privilege without a role records", "tom", fmt.Sprintf(beginSQL, "n"), "records no operations"},
	{"a privilege without a role tells", "tom", `INSERT INTO indoubt.events (id, verb, actor) VALUES ('n', 'note', 'tom')`, "this role tells nothing"},
	{"a privilege without a role checks", "tom", fmt.Sprintf(readSQL, "n"), "made by an engine"},

	{"a writer confirms", "ci", byOwn("doubt", "confirm", "committed", ""), person},
	{"a writer denies", "ci", byOwn("doubt", "deny", "failed", ""), person},
	{"a writer abandons", "ci", byOwn("doubt", "abandon", "abandoned", ", fact = 'uncertain'"), person},
	{"a writer abandons and calls it an answer", "ci", byOwn("doubt", "late", "abandoned", ", fact = 'uncertain'"), person},
	{"a writer undoes", "ci", byOwn("sent", "late", "uncertain", ", doubted = true, doubted_at = clock_timestamp(), ended_at = clock_timestamp()"), person},
	{"a writer parks", "ci", `UPDATE indoubt.operations SET parked_until = 'infinity' WHERE id = 'doubt'`, person},
	{"a writer confirms in plain SQL", "ci", fmt.Sprintf(landSQL, "doubt"), "by a check or by a person"},
	{"a writer settles by a check", "ci", byOwn("doubt", "read", "committed", ""), "by a check or by a person"},
	{
		"a writer puts a policy in force", "ci",
		`INSERT INTO indoubt.events (id, verb, actor, version, detail) VALUES ('n', 'policy', 'ci', 1, '{"digest":"d","files":[]}')`,
		"put in force by a person or an engine",
	},
	{"a writer makes a check up", "ci", fmt.Sprintf(readSQL, "n"), denied},
	{"a writer proves absence", "ci", `UPDATE indoubt.attempts SET proof = 'not_there' WHERE id = 'doubt.1'`, "proven by a check"},
	{"a writer settles what another sent", "cron", fmt.Sprintf(landSQL, "flying"), "by another user of the database"},
	{"a writer answers late for another", "cron", byOwn("doubt", "late", "committed", ""), "by another user of the database"},
	{"a writer extends what another sent", "cron", `UPDATE indoubt.operations SET deadline_at = deadline_at + '1 hour'::interval WHERE id = 'flying'`, "by another user of the database"},
	{"a writer ends the attempt of another", "cron", `UPDATE indoubt.attempts SET uid = 0, token_sent = true WHERE id = 'flying.1'`, "by another user of the database"},
	{"a writer expires what is in time", "cron", byOwn("flying", "expire", "uncertain", ", doubted = true, doubted_at = clock_timestamp(), ended_at = clock_timestamp(), live_attempt = '', deadline_at = NULL"), "by another user of the database"},
	{"a writer expires another's and says that it was found", "cron", expireSQL("overdue", "uncertain", ", verdict = 'landed', effects = 1, receipts = '[\"x\"]'"), "by another user of the database"},
	{"a writer expires another's and renames it", "cron", expireSQL("overdue", "uncertain", ", target = 'x'"), "by another user of the database"},
	{"a writer expires another's and says that the key works", "cron", expireSQL("overdue", "uncertain", "") + endSQL("overdue.1", ", key_works = true"), "by another user of the database"},
	{"a writer expires another's and says that the token was sent", "cron", expireSQL("overdue", "uncertain", "") + endSQL("overdue.1", ", token_sent = true"), "by another user of the database"},
	{"a writer expires another's as committed", "cron", expireSQL("overdue", "committed", ""), "by another user of the database"},
	{"an engine expires another's as committed", "eng", expireSQL("overdue", "committed", ""), "by another user of the database"},
	{"a writer begins another's again and renames it", "cron", againSQL("refused", ", target = 'x'"), "by another user of the database"},
	{"a writer begins another's again and says that it was found", "cron", againSQL("refused", ", effects = 2, conflict = 'duplicate'"), "by another user of the database"},
	{"a writer says that another was refused", "cron", `UPDATE indoubt.attempts SET late_outcome = 'failed', late_at = clock_timestamp(), proof = 'refused' WHERE id = 'doubt.1'`, "by another user of the database"},
	{"a writer gives up the key of another", "cron", `UPDATE indoubt.operations SET key_live = false WHERE id = 'sent'`, "by another user of the database"},
	{"a writer gives up its own key in time", "ci", `UPDATE indoubt.operations SET key_live = false WHERE id = 'doubt'`, "given up once"},
	{"a writer renames what another sent", "cron", `UPDATE indoubt.operations SET target = 'x' WHERE id = 'sent'`, "by another user of the database"},
	{"a writer hides another's doubt", "cron", `UPDATE indoubt.open_operations SET decide_at = 253402300799999, ripe = 0`, "by another user of the database"},
	{"a writer keeps another's doubt from being read", "cron", `UPDATE indoubt.open_operations SET read_at = 253402300799999`, "by another user of the database"},
	{"a writer calls another's doubt cheap", "cron", `UPDATE indoubt.open_operations SET miss_value = 0.01, digest = 'd'`, "by another user of the database"},
	{"a writer allows a send", "ci", fmt.Sprintf(grantSQL, "n", "proof"), "by a person: it needs"},
	{"a writer allows a send under a key", "ci", fmt.Sprintf(ownSQL, "NULL"), "by a person: it needs"},
	{"a writer repeats what another sent", "cron", fmt.Sprintf(ownSQL, "now()"), "by a person: it needs"},
	{"a writer holds", "ci", fmt.Sprintf(holdSQL, "all"), denied},
	{"a writer begins a run", "ci", `INSERT INTO indoubt.events (id, run, verb, actor) VALUES ('n', 'n', 'run', 'ann')`, person},
	{"a writer ends a run", "ci", `INSERT INTO indoubt.events (id, run, verb, actor) VALUES ('n', 'r', 'run_over', 'ann')`, person},
	{"a writer says what became of a row of a run", "ci", `INSERT INTO indoubt.events (id, operation_id, run, verb, actor) VALUES ('n', 'doubt', 'r', 'left_out', 'ann')`, person},
	{"a writer drives a run", "ci", `INSERT INTO indoubt.lead (scope, holder, rank, since, until) VALUES ('run:r', 'x', 1, now(), now())`, denied},
	{"a writer tells of a decision", "ci", `INSERT INTO indoubt.events (id, operation_id, verb, actor) VALUES ('n', 'doubt', 'confirm', 'ann')`, person},
	{"a writer opens an outage", "ci", outageSQL, denied},
	{"a writer ends an outage", "ci", `UPDATE indoubt.outages SET over_at = now()`, denied},
	{"an engine takes an outage", "eng", `UPDATE indoubt.outages SET taken_by = 'ann'`, denied},
	{"an engine forgets an outage", "eng", `DELETE FROM indoubt.outages`, denied},
	{"a writer takes an outage", "ci", `INSERT INTO indoubt.events (id, outage, verb, actor) VALUES ('n', 'i', 'outage_taken', 'ann')`, person},
	{"a writer tells of a permission", "ci", `INSERT INTO indoubt.events (id, operation_id, verb, actor) VALUES ('n', 'doubt', 'grant', 'ann')`, "by a person: it needs"},
	{"a writer tells what became of another's", "cron", `INSERT INTO indoubt.events (id, operation_id, verb, actor, reason) VALUES ('n', 'doubt', 'settle', 'ann', 'it landed')`, "by another user of the database"},
	{"a writer tells of a check", "ci", `INSERT INTO indoubt.events (id, operation_id, verb, actor) VALUES ('n', 'doubt', 'read', 'eve')`, "made by an engine"},
	{"a writer tells of an adoption by what it begins", "ci", strings.Replace(strings.Replace(fmt.Sprintf(beginSQL, "n"), "actor)", "actor, change_verb)", 1), "'nightly')", "'ann', 'adopt')", 1), "begins as pending"},
	{"a writer takes up what another may send", "cron", `UPDATE indoubt.grants SET consumed_at = clock_timestamp(), attempt_id = 'doubt.2' WHERE id = 'open'`, "for the user of the database that sent before"},
	{"a writer voids what another may send", "cron", `UPDATE indoubt.grants SET voided_at = clock_timestamp(), void_reason = 'x' WHERE id = 'open'`, "for the user of the database that sent before"},
	{"a writer signs as another user", "ci", `INSERT INTO indoubt.events (id, verb, actor, db_user) VALUES ('forged', 'note', 'x', 'ann'); SELECT 1/(db_user = 'ann')::int FROM indoubt.events WHERE id = 'forged'`, "division by zero"},
	{"a writer forges when it was told", "ci", `INSERT INTO indoubt.events (id, verb, actor, xid) VALUES ('forged', 'note', 'x', '1'); SELECT 1/(xid = '1')::int FROM indoubt.events WHERE id = 'forged'`, "division by zero"},
	{"a writer names the ledger", "ci", `INSERT INTO indoubt.meta VALUES ('name', 'x')`, denied},
	{"a writer says which key counts", "ci", `INSERT INTO indoubt.meta VALUES ('digests.check', 'x')`, denied},
	{"an engine says which key counts", "eng", `INSERT INTO indoubt.meta VALUES ('digests.check', 'x')`, "its owner says"},
	{"a writer renames the ledger", "ci", `UPDATE indoubt.meta SET value = 'x'`, denied},
	{"a writer adopts", "ci", `SELECT * FROM indoubt.adopt()`, denied},
	{"a writer says that it was adopted", "ci", `UPDATE indoubt.lineages SET adopted_at = now()`, denied},
	{"a writer tells of an adoption", "ci", `INSERT INTO indoubt.events (id, verb, actor) VALUES ('n', 'adopt', 'ann')`, person},
	{"an engine adopts", "eng", `SELECT * FROM indoubt.adopt()`, denied},
	{"an operator makes another home", "ann", `INSERT INTO indoubt.lineages (n, lineage, noted_at, known_until, xid) VALUES (9, 'x', now(), now(), '3')`, denied},
	{"a writer becomes another", "ci", `SET ROLE indoubt_operator`, denied},
	{"a writer says it is allowed", "ci", `CREATE OR REPLACE FUNCTION indoubt.may(act text) RETURNS boolean LANGUAGE sql RETURN true`, denied},
	{"a writer turns the guards off", "ci", `ALTER TABLE indoubt.operations DISABLE TRIGGER ALL`, "must be owner"},
	{"a writer replays without guards", "ci", `SET session_replication_role = replica`, denied},
	{"a writer deletes", "ci", `DELETE FROM indoubt.operations`, denied},
	{"a writer empties", "ci", `TRUNCATE indoubt.events`, denied},
	{"a writer gives itself what the guards call", "ci", `CREATE TEMP TABLE events (id text); CREATE FUNCTION pg_temp.lower(text) RETURNS text LANGUAGE sql RETURN 'x';
		SET search_path = pg_temp, pg_catalog; INSERT INTO indoubt.operations (id, kind, key, deadline_at, actor) VALUES ('n', 'k', 'n', clock_timestamp() + '1 hour'::interval, 'checks')`, "names of indoubt"},

	{"a writer tells of a decision by a trigger of its own", "ci", `CREATE TEMP TABLE mine (n int); CREATE FUNCTION pg_temp.tell() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
		INSERT INTO indoubt.events (seq, id, operation_id, verb, actor, from_state, to_state) VALUES (7000, 'n', 'doubt', 'confirm', 'ann', 'uncertain', 'committed'); RETURN NEW; END $f$;
		CREATE TRIGGER tells BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION pg_temp.tell(); INSERT INTO mine VALUES (1)`, "leave the number out"},

	{"an engine confirms", "eng", byOwn("doubt", "confirm", "committed", ""), person},
	{"an engine redacts", "eng", redactSQL("sent"), person},
	{"a writer redacts", "ci", redactSQL("sent"), person},
	{"a reader redacts", "bob", redactSQL("sent"), denied},
	{"a writer redacts and calls it an answer", "ci", strings.ReplaceAll(redactSQL("sent"), "'redact'", "'late'"), "never change"},
	{"a writer redacts the history", "ci", `UPDATE indoubt.events SET reason = '[redacted]'`, denied},
	{"an engine redacts evidence", "eng", `UPDATE indoubt.reads SET reason = '[redacted]'`, denied},
	{"an operator redacts the history of what is not redacted", "ann", `UPDATE indoubt.events SET reason = '[redacted]' WHERE operation_id = 'doubt'`, "the history never changes"},
	{"an operator redacts a doubt", "ann", redactSQL("doubt"), "becomes [redacted]"},
	{"an engine acknowledges", "eng", byOwn("doubt", "ack", "committed", ""), person},
	{"an engine settles without a check", "eng", byOwn("retried", "read", "failed", ""), "whose row in reads comes first"},
	{"an engine settles without a check, by another verb", "eng", byOwn("retried", "late", "committed", ""), "whose row in reads comes first"},
	{"an engine settles in plain SQL", "eng", fmt.Sprintf(landSQL, "retried"), "whose row in reads comes first"},
	{"an engine settles by a check that could not tell", "eng", verdictSQL("bad", "cannot_tell") + byOwn("retried", "read", "failed", ""), "whose row in reads comes first"},
	{"an engine settles by a check that was made before", "eng", verdictSQL("old", "not_there") + `; COMMIT; BEGIN;` + byOwn("retried", "read", "failed", ""), "whose row in reads comes first"},
	{"an engine ends what another sent", "eng", fmt.Sprintf(landSQL, "flying"), "by another user of the database"},
	{"an engine ends what another sent, as indoubt does", "eng", byOwn("flying", "settle", "committed", ", live_attempt = '', deadline_at = NULL, ended_at = clock_timestamp()"), "by another user of the database"},
	{"an engine expires what is in time", "eng", byOwn("flying", "expire", "uncertain", ", doubted = true, doubted_at = clock_timestamp(), ended_at = clock_timestamp(), live_attempt = '', deadline_at = NULL"), "by another user of the database"},
	{"an engine calls what expired failed", "eng", byOwn("overdue", "expire", "failed", ", ended_at = clock_timestamp(), live_attempt = '', deadline_at = NULL"), "by another user of the database"},
	{"an engine extends what another sent", "eng", `UPDATE indoubt.operations SET deadline_at = deadline_at + '1 hour'::interval WHERE id = 'flying'`, "by another user of the database"},
	{"an engine says that another's has no answer yet", "eng", `UPDATE indoubt.operations SET awaits = 'task', change_id = 'aw', reason = 'x' WHERE id = 'flying'`, "by another user of the database"},
	{"an engine says that another was refused", "eng", `UPDATE indoubt.attempts SET late_outcome = 'failed', late_at = clock_timestamp(), proof = 'refused' WHERE id = 'doubt.1'`, "by another user of the database"},
	{"an engine says that another sent the token", "eng", `UPDATE indoubt.attempts SET token_sent = true WHERE id = 'doubt.1'`, "by another user of the database"},
	{"an engine forgets what may be lost", "eng", `INSERT INTO indoubt.meta VALUES ('clock.gap_at', 0) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, "its owner says"},
	{"an engine says nothing of what may be lost", "eng", `INSERT INTO indoubt.meta VALUES ('clock.gap_at', 'x')  ON CONFLICT (name) DO UPDATE SET value = excluded.value`, "its owner says"},
	{"an engine allows a send (I5)", "eng", fmt.Sprintf(grantSQL, "n", "key_safe"), "by a person: it needs"},
	{"an operator uses what another operation has overtaken", "ann", fmt.Sprintf(aimedSQL, "older") + fmt.Sprintf(loseSQL, "older") + `
		INSERT INTO indoubt.grants (id, operation_id, version, basis, actor, created_at, expires_at)
		VALUES ('void', 'older', 2, 'risk_accepted', 'x', clock_timestamp(), now() + '1 hour'::interval); SELECT pg_sleep(0.01);` +
		fmt.Sprintf(aimedSQL, "newer") + `UPDATE indoubt.grants SET consumed_at = clock_timestamp(), attempt_id = 'older.2' WHERE id = 'void';` +
		againSQL("older", ""), "another operation on its target"},
	{"an engine takes a risk", "eng", fmt.Sprintf(grantSQL, "n", "risk_accepted"), "by a person: it needs"},
	{"an engine holds", "eng", fmt.Sprintf(holdSQL, "all"), denied},
	{"an engine begins a run", "eng", `INSERT INTO indoubt.events (id, run, verb, actor) VALUES ('n', 'n', 'run', 'ann')`, person},
	{"an engine says what became of a row of a run", "eng", `INSERT INTO indoubt.events (id, operation_id, run, verb, actor) VALUES ('n', 'doubt', 'r', 'left_out', 'ann')`, person},
	{"an engine renames the ledger", "eng", `UPDATE indoubt.meta SET value = 'x' WHERE name = 'id'`, "its owner says"},

	{"an operator releases a hold without a word (I8)", "ann", fmt.Sprintf(holdSQL, "kind:k") + `; COMMIT; BEGIN; UPDATE indoubt.holds SET released_at = now()`, "the history says that a hold is released"},
	{"an operator deletes", "ann", `DELETE FROM indoubt.events`, denied},
	{"an operator who acts as a writer confirms", "ann", `SET ROLE indoubt_writer; ` + byOwn("doubt", "confirm", "committed", ""), person},
}

// Each role does its own, and is refused what is another's.
func TestRoles(t *testing.T) {
	url := withRoles(t)
	as := func(user string) string { return pgtest.As(url, user) }
	for _, id := range []string{"doubt", "lost", "sent", "retried", "flying", "refused", "twice", "again"} {
		psql(t, as("ci"), fmt.Sprintf(beginSQL, id))
	}
	for _, id := range []string{"doubt", "lost", "retried", "twice", "again"} {
		psql(t, as("ci"), fmt.Sprintf(loseSQL, id))
	}
	psql(t, as("ci"), fmt.Sprintf(landSQL, "sent"))
	psql(t, url, `INSERT INTO indoubt.meta VALUES ('id', 'ledger'), ('clock.gap_at', '8')`)
	psql(t, as("ci"), `INSERT INTO indoubt.operations (id, kind, key, created_at, deadline_at, actor) VALUES ('overdue', 'mail.send', 'overdue', now() - '2 hours'::interval, now() - '1 hour'::interval, 'nightly')`)
	psql(t, as("ann"), fmt.Sprintf(grantSQL, "open", "risk_accepted"))
	psql(t, as("ci"), `UPDATE indoubt.operations SET state = 'failed', change_id = 'no', actor = 'nightly', reason = 'no', change_detail = '{"proof":"refused"}' WHERE id = 'refused'`)
	// A second attempt that is over, while the first was answered late.
	psql(t, as("ann"), strings.ReplaceAll(fmt.Sprintf(grantSQL, "twice", "risk_accepted"), "'doubt'", "'twice'"))
	psql(t, as("ci"), `BEGIN; UPDATE indoubt.grants SET consumed_at = now(), attempt_id = 'twice.2' WHERE id = 'twice';`+
		againSQL("twice", "")+`
		INSERT INTO indoubt.attempts (id, operation_id, n, basis, grant_id, started_at, deadline_at) VALUES ('twice.2', 'twice', 2, 'risk_accepted', 'twice', now(), (SELECT deadline_at FROM indoubt.operations WHERE id = 'twice'));
		UPDATE indoubt.attempts SET late_outcome = 'committed', late_at = now(), late_receipt = 'r' WHERE id = 'twice.1';`+
		byOwn("twice", "late", "pending", `, effects = 1, receipts = '["r"]', receipt = 'r'`)+`COMMIT`)

	// One psql for each user: what it says of each attack stands behind its number.
	scripts := map[string]string{}
	for i, c := range attacks {
		scripts[c.user] += fmt.Sprintf("\\warn =%d=\nBEGIN;\n%s;\nCOMMIT;\n", i, c.script)
	}
	for user, script := range scripts {
		out, _ := pgtest.Psql(t, as(user), "\\set ON_ERROR_STOP off\n"+script)
		for i, c := range attacks {
			if c.user != user {
				continue
			}
			_, said, _ := strings.Cut(out, fmt.Sprintf("=%d=\n", i))
			said, _, _ = strings.Cut(said, "\n=")
			switch {
			case !strings.Contains(said, "ERROR"):
				t.Errorf("%s: it may: %s", c.name, said)
			case !strings.Contains(said, c.says):
				t.Errorf("%s: %s, want %q", c.name, said, c.says)
			}
		}
	}

	for _, c := range []struct{ name, user, script string }{
		{"an operator adopts", "ann", `SELECT * FROM indoubt.adopt()`},
		{"a reader looks", "bob", `SELECT count(*) FROM indoubt.operations; SELECT count(*) FROM indoubt_rows.events;
			SELECT * FROM indoubt.deviations(); SELECT * FROM indoubt.totals`},
		{"a writer settles its own", "ci", fmt.Sprintf(landSQL, "flying")},
		{"a writer prices its own", "ci", `UPDATE indoubt.open_operations SET digest = 'd', rank = 3, decide_at = 1790000000000, read_at = 1790000000000`},
		{"a writer repeats its own under its key", "ci", fmt.Sprintf(ownSQL, "now()") + againSQL("again", "") + `
			INSERT INTO indoubt.attempts (id, operation_id, n, basis, grant_id, key_works, started_at, deadline_at)
			VALUES ('again.2', 'again', 2, 'key_safe', 'own', true, now(), (SELECT deadline_at FROM indoubt.operations WHERE id = 'again'))`},
		{"a writer answers late", "ci", byOwn("lost", "late", "committed", "")},
		{"a writer remarks", "ci", `INSERT INTO indoubt.events (id, verb, actor) VALUES ('remark', 'note', 'ci')`},
		{"an engine sums up", "eng", `INSERT INTO indoubt.total VALUES ('none', 'failed', '', 0)
			ON CONFLICT (kind, what, class) DO UPDATE SET n = total.n + excluded.n`},
		{"an engine tells of its clock", "eng", `INSERT INTO indoubt.meta VALUES ('clock.step_ms', '0') ON CONFLICT (name) DO UPDATE SET value = excluded.value`},
		{"an engine opens an outage, and ends it", "eng", outageSQL + `; UPDATE indoubt.outages SET last_at = now(), over_at = now()`},
		{"an operator takes an outage", "ann", `UPDATE indoubt.outages SET taken_by = 'ann', taken_until = now()`},
		{"an engine checks", "eng", fmt.Sprintf(readSQL, "r1")},
		{"an engine ends a permission", "eng", `UPDATE indoubt.grants SET voided_at = now(), void_reason = 'enough' WHERE id = 'open'`},
		{"an engine moves with the clock what may be lost", "eng", `UPDATE indoubt.meta SET value = '9' WHERE name = 'clock.gap_at'`},
		{"a writer begins what another was refused", "cron", againSQL("refused", ", token_sent = true")},
		{"an engine expires what another sent", "eng", expireSQL("overdue", "uncertain", "") + endSQL("overdue.1", "")},
		{"an engine expires what another sent, where an earlier attempt has landed", "eng", expireSQL("twice", "committed", ", by_answer = true, hands_off = true, conflict = 'possible_duplicate', settled_at = now()") + endSQL("twice.2", "")},
		{"an engine settles by a check", "eng", verdictSQL("good", "not_there") + byOwn("retried", "read", "failed", "")},
		{"an operator takes a risk", "ann", fmt.Sprintf(grantSQL, "risk", "risk_accepted") + `; UPDATE indoubt.grants SET voided_at = now(), void_reason = 'enough' WHERE id = 'risk'`},
		{"an operator holds", "ann", fmt.Sprintf(holdSQL, "all")},
		{"an operator confirms", "ann", byOwn("doubt", "confirm", "committed", "")},
		{"an operator redacts", "ann", redactSQL("sent") + `UPDATE indoubt.events SET reason = '[redacted]' WHERE operation_id = 'sent' AND verb <> 'redact'`},
		{"an operator undoes", "ann", byOwn("doubt", "undo", "uncertain", ", doubted = true, hands_off = true")},
	} {
		if out, err := pgtest.Psql(t, as(c.user), "BEGIN;\n"+c.script+";\nCOMMIT;"); err != nil {
			t.Errorf("%s: %s", c.name, out)
		}
	}

	// The history has the user that logged in, beside the name that was said.
	got := psql(t, url, `SELECT verb, actor, db_user FROM indoubt.events WHERE operation_id = 'doubt' ORDER BY seq`)
	if want := "begin|nightly|ci\nsettle|nightly|ci\nconfirm|x|ann\nundo|x|ann"; got != want {
		t.Errorf("the history says\n%s\nwant\n%s", got, want)
	}
	if got := psql(t, url, `SELECT DISTINCT db_user FROM indoubt.attempts; SELECT db_user FROM indoubt.holds; SELECT db_user FROM indoubt.grants ORDER BY id; SELECT * FROM indoubt.deviations()`); got != "ci\nann\nann\nann\nci\nann\nann" {
		t.Errorf("%s", got)
	}
}
