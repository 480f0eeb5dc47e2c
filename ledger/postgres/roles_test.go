//go:build soak

package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// withRoles is the URL of a ledger with roles. Its users are ci and cron, who write, eng,
// ann, who decides, bob, who looks, tom, who looks and was given more by hand, and out, who
// has no role.
func withRoles(t *testing.T) string {
	t.Helper()
	return pgtest.From(t, "roles", func(url string) error {
		s, err := Create(ctx, url, Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		for range 2 {
			if err := s.MakeRoles(ctx); err != nil {
				return err
			}
		}
		out, err := pgtest.Psql(t, url, `CREATE ROLE ci LOGIN; CREATE ROLE cron LOGIN; CREATE ROLE eng LOGIN; CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE out LOGIN; CREATE ROLE tom LOGIN;
			GRANT indoubt_writer TO ci, cron; GRANT indoubt_engine TO eng; GRANT indoubt_operator, indoubt_writer TO ann; GRANT indoubt_reader TO bob, tom;
			GRANT ALL ON ALL TABLES IN SCHEMA indoubt TO tom; GRANT ALL ON ALL SEQUENCES IN SCHEMA indoubt TO tom;`)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

const (
	person   = "for a person to decide"
	denied   = "permission denied"
	another  = "by another user of the database"
	beginSQL = `INSERT INTO op (id, kind, name, deadline_at, actor, reason) VALUES ('n', 'mail', 'n', (extract(epoch FROM now()) * 1000)::bigint + 60000, 'nightly', 'attempt 1')`
	outSQL   = `INSERT INTO outage (id, scope, kinds, pipelines, classes, gap_ms, opened_at, first_at, last_at) VALUES ('i', 'kind:k', '[]', '[]', '[]', 1, 1, 1, 1)`
)

// change is one of an operation as indoubt writes it.
func change(id, verb string, machine int, set string) string {
	if !strings.Contains(set, "facts") {
		set += `, facts = '{}'`
	}
	return fmt.Sprintf(`UPDATE op SET version = version + 1, change_id = '%[2]s', verb = '%[2]s', reason = 'said so', actor = 'x', machine = %[3]d%[4]s WHERE id = '%[1]s'`, id, verb, machine, set)
}

func event(op, verb, actor string, machine int) string {
	return fmt.Sprintf(`INSERT INTO ev (op, id, verb, actor, machine) VALUES (coalesce((SELECT seq FROM op WHERE id = '%s'), 0), 'n', '%s', '%s', %d)`, op, verb, actor, machine)
}

const (
	landed = `, state = 'committed', deadline_at = 0, ended_at = 1800000000000, person_only = 1, effects = 1, facts = '{"outcome": "committed"}'`
	held   = `, state = 'committed', person_only = 1, effects = 1, facts = '{}'`
	missed = `, state = 'failed', facts = '{"proof": "not_there"}', unproven = 0`
	lost   = `, state = 'uncertain', deadline_at = 0, ended_at = 1800000000000, doubted = 1, doubted_at = 1, unproven = 1, facts = '{"outcome": "uncertain"}'`
)

// attacks are what a role is refused, and a part of what is said.
var attacks = []struct{ name, user, script, says string }{
	{"a stranger looks", "out", `SELECT * FROM indoubt.op`, denied},
	{"a reader records", "bob", beginSQL, denied},
	{"a reader records by the view", "bob", `INSERT INTO intent (id, kind, key, actor) VALUES ('n', 'k', 'n', 'x')`, denied},
	{"a reader settles", "bob", change("flying", "settle", 1, landed), denied},
	{"a reader remarks", "bob", event("doubt", "note", "bob", 0), denied},
	{"a writer tells of the future", "ci", `INSERT INTO ev (op, id, verb, actor, at) VALUES (1, 'n', 'note', 'x', 4000000000000)`, "this role tells nothing"},
	{"a writer settles in the future", "ci", change("flying", "settle", 1, landed+", changed_at = 4000000000000"), "of the future"},
	{"a writer sums up", "ci", `INSERT INTO total VALUES ('seq', 1)`, denied},
	{"a privilege without a role records", "tom", beginSQL, "this role records no operations"},
	{"a privilege without a role tells", "tom", event("doubt", "note", "tom", 1), "this role tells nothing"},
	{"a writer confirms", "ci", change("doubt", "confirm", 0, held), person},
	{"a writer confirms as a machine", "ci", change("doubt", "confirm", 1, held), "by a check or by a person"},
	{"a writer settles by a check", "ci", change("doubt", "read", 1, held), "by a check or by a person"},
	{"a writer denies", "ci", change("doubt", "deny", 0, missed), person},
	{"a writer proves absence", "ci", change("doubt", "late", 1, missed), "by a check or by a person"},
	{"a writer abandons", "ci", change("doubt", "abandon", 0, ", abandoned = 1"), person},
	{"a writer parks", "ci", change("doubt", "park", 0, ", parked_until = 1"), person},
	{"a writer undoes", "ci", change("sent", "undo", 0, ", state = 'uncertain', person_only = 1"), person},
	{"a writer allows a send", "ci", change("doubt", "allow", 0, ", allow_until = 4000000000000"), person},
	{"a writer settles what another sent", "cron", change("flying", "settle", 1, landed), another},
	{"a writer settles what another sent, by the view", "cron", `INSERT INTO settle (attempt, outcome, actor) VALUES ('flying.1', 'committed', 'ci')`, another},
	{"a writer answers late for another", "cron", change("doubt", "late", 1, held), another},
	{"a writer extends what another sent", "cron", `UPDATE op SET deadline_at = deadline_at + 1 WHERE id = 'flying'`, another},
	{"a writer expires what is in time", "cron", change("flying", "expire", 1, lost), another},
	{"a writer expires another's and marks it", "cron", change("overdue", "expire", 1, lost+", mark = E'\\nx\\n'"), another},
	{"a writer expires another's as committed", "cron", change("overdue", "expire", 1, landed), another},
	{"an engine expires another's as committed", "eng", change("overdue", "expire", 1, landed), another},
	{"a writer marks what another sent", "cron", `UPDATE op SET mark = mark || E'\nx\n' WHERE id = 'doubt'`, another},
	{"a writer names what another sent", "cron", `UPDATE op SET title = 'x' WHERE id = 'doubt'`, another},
	{"a writer hides another's doubt", "cron", `UPDATE op SET person_at = 0, rank = 0, policy = 'x' WHERE id = 'doubt'`, another},
	{"a writer keeps another's from being checked", "cron", `UPDATE price SET look_at = 4000000000000`, another},
	{"a writer calls another's cheap", "cron", `INSERT INTO price (op, duplicate) SELECT seq, 0 FROM op WHERE id = 'sent'`, another},
	{"a writer sends what another may", "cron", change("allowed", "begin", 1, ", state = 'pending', attempt = 2, allow_until = 0, deadline_at = created_at + 1000000, facts = '{}'"), "that sent before"},
	{"a writer holds", "ci", `INSERT INTO hold (scope, actor, reason, created_at, change_id) VALUES ('all', 'x', 'x', 1, 'x')`, denied},
	{"a writer releases", "ci", `DELETE FROM hold`, denied},
	{"a writer signs as another", "ci", event("doubt", "note", "ann", 0), "this role tells nothing"},
	{"a writer tells of a decision", "ci", event("doubt", "confirm", "ann", 0), "this role tells nothing"},
	{"a writer tells of a check", "ci", event("doubt", "read", "eve", 1), "this role tells nothing"},
	{"a writer begins a run", "ci", event("", "run", "ann", 0), "this role tells nothing"},
	{"a writer tells of a policy", "ci", event("", "policy", "ann", 0), "policy"},
	{"a writer puts a name on what it tells", "ci", `INSERT INTO ev (op, id, verb, actor, db_user) VALUES (1, 'n', 'note', 'x', 'ann')`, denied},
	{"a writer forges when it was told", "ci", `INSERT INTO ev (op, id, verb, actor, place) VALUES (1, 'n', 'note', 'x', 3)`, denied},
	{"a writer makes an outage silent", "ci", `UPDATE outage SET last_at = 1`, denied},
	{"a writer opens an outage", "ci", outSQL, denied},
	{"an engine takes an outage", "eng", `UPDATE outage SET taken_by = 'ann'`, denied},
	{"a writer leads", "ci", `INSERT INTO lead VALUES ('x', 'x', 1, 1, 1)`, denied},
	{"a writer names the ledger", "ci", `UPDATE meta SET value = 'x'`, denied},
	{"an operator says where it is at home", "ann", `UPDATE meta SET value = 'x' WHERE name = 'home'`, denied},
	{"a writer locks all others out", "ci", `LOCK TABLE op IN ACCESS EXCLUSIVE MODE`, denied},
	{"an operator locks all others out", "ann", `LOCK TABLE ev IN ACCESS EXCLUSIVE MODE`, denied},
	{"a writer becomes another", "ci", `SET ROLE indoubt_operator`, denied},
	{"a writer says it is allowed", "ci", `CREATE OR REPLACE FUNCTION indoubt.may(act text) RETURNS boolean LANGUAGE sql RETURN true`, denied},
	{"a writer turns the guards off", "ci", `ALTER TABLE op DISABLE TRIGGER ALL`, "must be owner"},
	{"a writer replays without guards", "ci", `SET session_replication_role = replica`, denied},
	{"a writer deletes", "ci", `DELETE FROM op`, denied},
	{"a writer empties", "ci", `TRUNCATE ev`, denied},
	{"a writer moves a sequence", "ci", `SELECT setval('op_seq', 1)`, denied},
	{"a writer numbers its rows", "ci", `INSERT INTO op (seq, id, kind, name, deadline_at, actor) VALUES (9999, 'n', 'mail', 'n', 4000000000000, 'x')`, "leave the number out"},
	{"a writer tells by a trigger of its own", "ci", `CREATE TEMP TABLE mine (n int); CREATE FUNCTION pg_temp.tell() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
		INSERT INTO indoubt.ev (op, id, verb, actor, machine) VALUES (1, 'n', 'confirm', 'ann', 0); RETURN NEW; END $f$;
		CREATE TRIGGER tells BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION pg_temp.tell(); INSERT INTO mine VALUES (1)`, "this role tells nothing"},
	{"a writer puts tables before ours", "ci", `CREATE TEMP TABLE op (seq bigint, state text); CREATE TEMP TABLE hold (scope text); SET search_path = pg_temp, indoubt;
		UPDATE indoubt.op SET mark = 'x' WHERE id = 'flying' AND FALSE; INSERT INTO indoubt.op (id, kind, name, deadline_at, actor) VALUES ('doubt', 'mail', 'doubt', 4000000000000, 'x')`, "recorded already"},
	{"an engine confirms", "eng", change("doubt", "confirm", 0, held), person},
	{"an engine redacts", "eng", change("sent", "redact", 0, ", title = '[redacted]'"), person},
	{"a writer redacts the history", "ci", `UPDATE ev SET reason = '[redacted]'`, denied},
	{"an engine tells of a decision", "eng", event("doubt", "confirm", "ann", 0), "this role tells nothing"},
	{"an engine releases", "eng", `DELETE FROM hold`, denied},
	{"an engine settles what another sent", "eng", change("flying", "settle", 1, landed), another},
	{"an engine allows a send (I5)", "eng", change("doubt", "allow", 1, ", allow_until = 4000000000000"), "a permission is a person's"},
	{"an operator adopts", "ann", event("", "adopt", "ann", 0), "or the owner"},
	{"an operator who acts as a writer confirms", "ann", `SET ROLE indoubt_writer; ` + change("doubt", "confirm", 0, held), person},
}

// Each role does its own, and is refused what is another's.
func TestRoles(t *testing.T) {
	url := withRoles(t)
	as := func(user string) *Store {
		to := map[string]string{"eng": Check, "ann": Decide}[user]
		return opened(t, pgtest.As(url, user), Options{To: to})
	}
	ci, cron, eng, ann := as("ci"), as("cron"), as("eng"), as("ann")
	ops := map[string]ledger.Operation{}
	begin := func(by *Store, id string, deadline time.Duration) {
		t.Helper()
		req := begun(id)
		req.OperationID, req.AttemptID, req.Deadline = id, id+".1", deadline
		ops[id] = need.Get(ledger.Begin(ctx, by, req))(t).Operation
	}
	settle := func(by *Store, id string, outcome ledger.Outcome) {
		t.Helper()
		ops[id] = need.Get(ledger.Settle(ctx, by, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: id + ".1", Outcome: outcome,
			Receipt: "r-" + id, ErrorClass: ledger.ClassTimeout, Actor: ledger.Actor{Name: "pipeline", Machine: true}}))(t).After
	}
	for _, id := range []string{"doubt", "lost", "sent", "retried", "flying", "allowed"} {
		begin(ci, id, time.Hour)
	}
	for _, id := range []string{"doubt", "lost", "retried", "allowed"} {
		settle(ci, id, ledger.OutcomeUncertain)
	}
	settle(ci, "sent", ledger.OutcomeCommitted)
	begin(ci, "overdue", 10*time.Millisecond)
	vera := ledger.Actor{Name: "vera", Terminal: true}
	ops["allowed"] = need.Get(ledger.Allow(ctx, ann, ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), OperationID: "allowed", Version: ops["allowed"].Version,
		Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Reason: "must", Actor: vera, ExpiresAt: time.Now().Add(time.Hour)}))(t).After

	// One psql for each user: what it says of each attack stands behind its number.
	scripts := map[string]string{}
	for i, c := range attacks {
		scripts[c.user] += fmt.Sprintf("\\warn =%d=\nBEGIN; SET LOCAL search_path = indoubt;\n%s;\nCOMMIT;\n", i, c.script)
	}
	for user, script := range scripts {
		out, _ := pgtest.Psql(t, pgtest.As(url, user), "\\set ON_ERROR_STOP off\n"+script)
		for i, c := range attacks {
			if c.user != user {
				continue
			}
			_, said, _ := strings.Cut(out, fmt.Sprintf("=%d=\n", i))
			said, _, _ = strings.Cut(said, "\n=")
			need.That(t, strings.Contains(said, "ERROR") && strings.Contains(said, c.says), "%s: %s, want %q", c.name, said, c.says)
		}
	}

	// What each may, through the program.
	settle(ci, "flying", ledger.OutcomeCommitted)
	settle(ci, "lost", ledger.OutcomeCommitted) // late
	_, err := eng.Expire(ctx, 10)
	need.OK(t, err)
	o := need.Get(eng.Read(ctx, ledger.Locator{ID: "overdue"}))(t).Operation
	need.Equal(t, o.State, ledger.Uncertain)
	now := time.Now()
	seen := need.Get(ledger.Observe(ctx, eng, ledger.Observation{ChangeID: ledger.NewID(), Version: ops["retried"].Version, Settles: true, Actor: ledger.Actor{Name: "checks", Machine: true},
		Read: ledger.Read{ID: ledger.NewID(), OperationID: "retried", Verdict: ledger.Landed, Reason: "found", BeganAt: now, EndedAt: now}}))(t)
	need.Equal(t, seen.After.State, ledger.Committed)
	need.OK(t, ann.Hold(ctx, ledger.Hold{Scope: "kind:x", Actor: vera, Reason: "why"}))
	confirmed := need.Get(ledger.Decide(ctx, ann, ledger.Decision{ChangeID: ledger.NewID(), ID: "doubt", Version: ops["doubt"].Version, Verb: ledger.VerbConfirm, Reason: "seen", Actor: vera}))(t)
	need.Equal(t, confirmed.After.State, ledger.Committed)
	told := need.Get(ledger.Tell(ctx, cron, "allowed", ledger.Actor{Name: "cron", Machine: true}))(t)
	need.That(t, told, "another's caller is not told")
	again := begun("allowed")
	need.Equal(t, need.Get(ledger.Begin(ctx, ci, again))(t).Attempt.N, 2)
	psql(t, pgtest.As(url, "cron"), `INSERT INTO indoubt.intent (id, kind, key, actor) VALUES ('plain', 'k', 'plain', 'x'); INSERT INTO indoubt.settle (attempt, outcome, actor) VALUES ('plain.1', 'committed', 'x')`)

	// The history has the user that logged in, beside the name that was said.
	got := psql(t, url, `SELECT verb, actor, db_user FROM indoubt.ev WHERE op = (SELECT seq FROM indoubt.op WHERE id = 'doubt') ORDER BY seq`)
	need.Equal(t, got, "begin|pipeline|ci\nsettle|pipeline|ci\nconfirm|vera|ann")
}
