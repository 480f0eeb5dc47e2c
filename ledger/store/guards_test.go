package store

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const lately = 1_790_000_000_000

// born is the statement that begins an operation in plain SQL. or is what SQLite may be told to
// do instead of refusing; more are further columns with their values: a=1, b='x'.
func born(id, name, more string, or ...string) string {
	names, values := "id, kind, name, deadline_at, created_at, changed_at, actor, facts",
		fmt.Sprintf("'%s', 'x', '%s', %d, %d, %d, 'n', '{\"sender\":\"http\"}'", id, name, lately+60000, lately, lately)
	for _, set := range splitSets(more) {
		column, value, _ := strings.Cut(set, "=")
		names, values = names+", "+column, values+", "+value
	}
	return fmt.Sprintf("INSERT %s INTO op (%s) VALUES (%s)", strings.Join(or, ""), names, values)
}

// splitSets takes a=1; b='x' apart.
func splitSets(sets string) (out []string) {
	for _, set := range strings.Split(sets, ";") {
		if set = strings.TrimSpace(set); set != "" {
			out = append(out, set)
		}
	}
	return out
}

var changeNo int

// moved is the statement that changes an operation: with a change id, a reason and a version.
func moved(id, sets string, or ...string) string {
	changeNo++
	all := fmt.Sprintf("version=version+1, change_id='c%d', changed_at=%d", changeNo, lately)
	if !strings.Contains(sets, "reason=") {
		all += ", reason='r'"
	}
	for _, set := range []string{"machine=1", "facts=NULL"} {
		if !strings.Contains(sets, set[:5]) {
			all += ", " + set
		}
	}
	return fmt.Sprintf("UPDATE %s op SET %s, %s WHERE id = '%s'", strings.Join(or, ""), all, strings.Join(splitSets(sets), ", "), id)
}

// thinned is the statement that moves an operation to the file of a prune.
func thinned(id, to, more string) string {
	return fmt.Sprintf("UPDATE op SET moved=%s, payload=NULL, change_id=''%s WHERE id = '%s'", to, more, id)
}

func event(columns, values string) string {
	return "INSERT INTO ev (op, id, verb, actor" + columns + ") VALUES (" + values + ")"
}

const (
	lost     = `facts='{"outcome":"uncertain"}'`
	refused  = `state='failed'; verb='settle'; facts='{"outcome":"failed","proof":"refused"}'`
	itsSeq   = `(SELECT seq FROM op WHERE id = '%s')`
	person   = `; machine=0`
	thePrune = `(SELECT seq FROM ev WHERE id = 'p1')`
)

func of(id string) string { return fmt.Sprintf(itsSeq, id) }

// TestGuards plays attacks on one ledger and legal walks between them, in this order. What begins
// with ! must be refused. Each rule of the guards refuses one of them at least.
func TestGuards(t *testing.T) {
	t.Parallel()
	m := need.Get(InMemory(nil, nil))(t).(*memory)
	s := New(m, nil)
	defer s.Close()
	var said []string // by refusals
	for _, step := range []struct {
		name string
		sql  []string
	}{
		// The gate, attempts, permissions.
		{"begin a", []string{born("a", "k1", "gate='S1'; token='t1'")}},
		{"!identical under another key, in flight", []string{born("b", "k2", "gate='S1'")}},
		{"!OR REPLACE over the same", []string{born("b", "k2", "gate='S1'", "OR REPLACE")}},
		{"!OR REPLACE over a name, scope NULL becomes its default", []string{born("b", "k1", "scope=NULL", "OR REPLACE")}},
		{"!a second of the name", []string{born("b", "k1", "n=1")}},
		{"!upsert", []string{fmt.Sprintf("INSERT INTO op (id, kind, name, deadline_at, actor) VALUES ('a', 'x', 'k9', %d, 'n') ON CONFLICT (id) DO UPDATE SET state='failed'", lately)}},
		{"!n changed", []string{moved("a", "n=1")}},
		{"!token changed", []string{moved("a", "token='t2'")}},
		{"!born moved", []string{born("b", "k2", "moved=1")}},
		{"!born settled", []string{born("b", "k2", "state='committed'")}},
		{"!born without a change id", []string{born("b", "k2", "change_id=''")}},
		{"!OR IGNORE: born without an event", []string{born("b", "k2", "change_id=''", "OR IGNORE")}},
		{"!row 0: the ledger is no operation", []string{born("b", "k2", "seq=0")}},
		{"!a deadline of seconds",
			[]string{"INSERT INTO op (id, kind, name, deadline_at, actor) VALUES ('b', 'x', 'k2', 1790000000, 'n')"}},
		{"a uncertain", []string{moved("a",
			"state='uncertain'; unproven=1; doubted=1; verb='settle'; payload='{\"error\":\"timeout\"}'; "+lost)}},
		{"!identical, in doubt", []string{born("b", "k2", "gate='S1'")}},
		{"!second attempt", []string{moved("a", "state='pending'; attempt=2")}},
		{"!a machine retries", []string{moved("a", "state='pending'; attempt=2; verb='retry'")}},
		{"!OR REPLACE, machine NULL: abandon", []string{moved("a", "abandoned=1; machine=NULL", "OR REPLACE")}},
		{"!name given up in doubt", []string{moved("a", "live=0; verb='expire'")}},
		{"!in silence, too", []string{"UPDATE op SET live=0 WHERE id='a'"}},
		{"!a machine allows", []string{moved("a", fmt.Sprintf("allow_until=%d; verb='grant'", lately+1000))}},
		{"allow", []string{moved("a", fmt.Sprintf("allow_until=%d; verb='grant'", lately+1000)+person)}},
		{"!check lands but keeps the permission", []string{moved("a", "state='committed'; person_only=1; verb='read'")}},
		{"note beside it", []string{event("", "1, 'note1', 'note', 'kim'")}},
		{"permission still there, consumed", []string{moved("a", "state='pending'; attempt=2; allow_until=0; verb='begin'")}},
		{"!failed while 1 is unknown", []string{moved("a", refused)}},
		{"attempt 2 refused, in doubt stays", []string{moved("a",
			`state='uncertain'; verb='settle'; facts='{"outcome":"failed","proof":"refused"}'`)}},
		{"!a doubt less without a word", []string{moved("a", "unproven=0; verb='late'")}},
		{"!by the proof of an earlier change", []string{strings.Replace(moved("a", "unproven=0; verb='late'"), ", facts=NULL", "", 1)}},
		{"late refusal of 1", []string{moved("a", `state='failed'; unproven=0; verb='late'; facts='{"proof":"refused","n":1}'`)}},
		{"identical begins: a is failed", []string{born("b", "k2", "gate='S1'")}},
		{"!a again beside b", []string{moved("a", "state='pending'; attempt=3; verb='begin'")}},
		{"b uncertain", []string{moved("b", "state='uncertain'; unproven=1; "+lost)}},
		{"!machine abandons", []string{moved("b", "abandoned=1; verb='abandon'")}},
		{"abandon", []string{moved("b", "abandoned=1; verb='abandon'"+person)}},
		{"a again: b is abandoned", []string{moved("a", "state='pending'; attempt=3; verb='begin'")}},
		{"!undo of abandon while a flies", []string{moved("b", "abandoned=0; verb='undo'"+person)}},
		{"undo that gives the gate up", []string{moved("b", "abandoned=0; gate=''; verb='undo'"+person)}},
		{"s uncertain", []string{born("s", "ks", "gate='S2'"), moved("s", fmt.Sprintf("state='uncertain'; unproven=1; ended_at=%d; ", lately)+lost)}},
		{"!a check that leaves a doubt", []string{moved("s", `state='failed'; unproven=1; verb='read'; facts='{"proof":"not_there"}'`)}},
		{"s again under a key that is safe", []string{moved("s",
			`state='pending'; attempt=2; verb='begin'; facts='{"basis":"key_safe"}'`)}},
		{"s committed", []string{moved("s",
			`state='committed'; person_only=1; verb='settle'; effects=1; receipts='["r1"]'; facts='{"outcome":"committed"}'; payload='{"receipt":"r1"}'`)}},
		{"!machine undoes", []string{moved("s", "state='uncertain'; verb='undo'")}},
		{"!undo and give the name up at once", []string{moved("s", "state='uncertain'; live=0; verb='undo'"+person)}},
		{"!committed to failed", []string{moved("s", "state='failed'"+person)}},
		{"!a person's alone taken back", []string{moved("s", "person_only=0"+person)}},
		{"!gate emptied in silence", []string{"UPDATE op SET gate='' WHERE id='s'"}},
		{"!token_sent in silence", []string{"UPDATE op SET token_sent=1 WHERE id='s'"}},
		{"!receipts changed in silence", []string{"UPDATE op SET receipts='[]' WHERE id='s'"}},
		{"!words of the newest change changed in silence", []string{"UPDATE op SET verb='redact', machine=0 WHERE id='s'"}},
		{"!payload emptied in silence", []string{"UPDATE op SET payload=NULL WHERE id='s'"}},
		{"!version far ahead", []string{"UPDATE op SET version=version+5 WHERE id='s'"}},
		{"!no reason", []string{moved("s", "conflict='twice'; reason=' '")}},
		{"undone", []string{moved("s", "state='uncertain'; unproven=2; verb='undo'"+person)}},
		{"!a machine says that it failed", []string{moved("s", `state='failed'; unproven=0; verb='read'; facts='{"proof":"not_there"}'`)}},
		{"a person confirms", []string{moved("s", "state='committed'; verb='confirm'"+person)}},
		{"!a name that is had by the other, born beside it", []string{born("s2", "ks", "n=0; live=0")}},
		{"name given up, and new begin under it, n 1", []string{"UPDATE op SET live=0 WHERE id='s'", born("s2", "ks", "n=1; gate='S2'")}},
		{"!name taken back", []string{"UPDATE op SET live=1 WHERE id='s'"}},
		// What it is called, its times, and the end of an attempt.
		{"e in flight", []string{born("e", "e", "target='t'; title='w'; mark='m'; gate='S9'")}},
		{"!another target", []string{moved("e", "target='u'")}},
		{"!another title in silence", []string{"UPDATE op SET title='u' WHERE id='e'"}},
		{"!marks taken away", []string{"UPDATE op SET mark='' WHERE id='e'"}},
		{"a mark more", []string{"UPDATE op SET mark='mm' WHERE id='e'"}},
		{"!an earlier deadline", []string{"UPDATE op SET deadline_at=deadline_at-1 WHERE id='e'"}},
		{"a question with a day to answer it, and then an hour for the rest", []string{moved("e", "awaits='input'; deadline_at=deadline_at+86400000"), moved("e", "awaits='answer'; deadline_at=deadline_at-82800000")}},
		{"!an earlier deadline for the same answer", []string{moved("e", "deadline_at=deadline_at-1")}},
		{"!a deadline in two years", []string{"UPDATE op SET deadline_at=deadline_at+63000000000 WHERE id='e'"}},
		{"!no deadline, through NULL", []string{"UPDATE OR REPLACE op SET deadline_at=NULL WHERE id='e'"}},
		{"a heartbeat", []string{"UPDATE op SET deadline_at=deadline_at+1 WHERE id='e'"}},
		{"!an end without an outcome", []string{moved("e", "state='uncertain'; unproven=1")}},
		{"!it failed, and its attempt did not", []string{moved("e", `state='failed'; unproven=1; facts='{"outcome":"committed"}'`)}},
		{"!the end of another attempt", []string{moved("e", `state='uncertain'; unproven=1; facts='{"outcome":"uncertain","n":2}'`)}},
		{"!an outcome of what goes on", []string{moved("e", lost)}},
		{"!a lost answer that counts for nothing", []string{moved("e", "state='uncertain'; "+lost)}},
		{"!and is proven, too", []string{moved("e", `state='uncertain'; facts='{"outcome":"uncertain","proof":"refused"}'`)}},
		{"!unproven in flight", []string{moved("e", "unproven=1")}},
		{"e in doubt", []string{moved("e", fmt.Sprintf("state='uncertain'; unproven=1; doubted=1; ended_at=%d; deadline_at=0; ", lately)+lost)}},
		{"!an earlier end", []string{moved("e", "ended_at=1")}},
		{"!a doubt forgotten", []string{moved("e", "doubted=0")}},
		{"!times in silence", []string{"UPDATE op SET started_at=1 WHERE id='e'"}},
		{"!parked in silence", []string{"UPDATE op SET parked_until=9 WHERE id='e'"}},
		{"!a machine says that it failed, and proves it by nothing", []string{moved("e", "state='failed'; verb='late'")}},
		{"!or by no proof that there is", []string{moved("e", `state='failed'; unproven=0; verb='late'; facts='{"proof":"x"}'`)}},
		{"!more may have acted than were sent", []string{moved("e", "unproven=2; verb='late'")}},
		{"!in flight again, and abandoned: no gate holds it", []string{moved("e", "state='pending'; attempt=2; abandoned=1; verb='retry'"+person)}},
		{"!a further attempt, told of the first", []string{moved("e", `state='pending'; attempt=2; verb='retry'; facts='{"n":1}'`+person)}},
		{"!a version far ahead", []string{"UPDATE op SET version=version+5, change_id='cv', reason='r', facts=NULL WHERE id='e'"}},
		{"!a change id that was used", []string{"UPDATE op SET version=version+1, reason='r', facts=NULL, change_id=(SELECT id FROM ev WHERE op=" +
			of("e") + " AND verb='begin') WHERE id='e'"}},
		{"!born with an outcome", []string{strings.Replace(born("e2", "e2", ""), `"sender"`, `"outcome":"failed","sender"`, 1)}},
		{"!born with an end", []string{born("e2", "e2", "ended_at=9")}},
		// Plain SQL.
		{"intent", []string{`INSERT INTO intent (id, kind, key, input, actor, token) VALUES ('f1', 'mail', 'INV-1', '{"a":1}', 'cron',
			'tf')`}},
		{"!intent, same key", []string{`INSERT INTO intent (id, kind, key, actor) VALUES ('f2', 'mail', 'INV-1', 'cron')`}},
		{"!signed as a check", []string{`INSERT INTO intent (id, kind, key, actor) VALUES ('f2', 'mail', 'INV-2', ' Checks ')`}},
		{"!settled by the clock", []string{`INSERT INTO settle (attempt, outcome, actor) VALUES ('f1.1', 'committed', 'clock')`}},
		{"!settle failed with no known proof", []string{`INSERT INTO settle (attempt, outcome, proof) VALUES ('f1.1', 'failed',
			'absent')`}},
		{"!settle names no attempt", []string{`INSERT INTO settle (attempt, outcome) VALUES ('f1', 'committed')`}},
		{"!settle names attempt 2", []string{`INSERT INTO settle (attempt, outcome) VALUES ('f1.2', 'committed')`}},
		{"!settle names NULL", []string{`INSERT INTO settle (outcome) VALUES ('committed')`}},
		{"settle", []string{`INSERT INTO settle (attempt, outcome, receipt, actor, result) VALUES ('f1.1', 'committed', 'r1', 'cron',
			'{"id":1}')`}},
		{"!settle twice", []string{`INSERT INTO settle (attempt, outcome, actor) VALUES ('f1.1', 'failed', 'cron')`}},
		// Holds on begins.
		{"hold without begins, a hold on another kind, one that is over", []string{`INSERT INTO hold (scope, actor, reason, begins,
			created_at, until, change_id) VALUES
			('kind:x', 'kim', 'r', 0, 1, 0, 'h1'), ('kind:y', 'kim', 'r', 1, 1, 0, 'h2'), ('kind:mail', 'kim', 'r', 1, 1, 2, 'h3')`}},
		{"begins go on", []string{born("h1", "h1", "")}},
		{"hold begins of x", []string{"UPDATE hold SET begins=1 WHERE scope='kind:x'"}},
		{"!machine begins x", []string{born("h2", "h2", "")}},
		{"!OR REPLACE, machine NULL begins x", []string{born("h2", "h2", "machine=NULL", "OR REPLACE")}},
		{"!machine 2", []string{born("h2", "h2", "machine=2")}},
		{"a person begins x", []string{born("h2", "h2", "machine=0")}},
		{"a machine settles under it", []string{moved("h1", refused)}},
		{"hold everything", []string{"INSERT INTO hold (scope, actor, reason, begins, created_at, change_id) VALUES ('all', 'kim', 'r', 1, 1, 'h4')"}},
		{"!intent under it", []string{"INSERT INTO intent (id, kind, key, actor) VALUES ('f6', 'mail', 'INV-6', 'cron')"}},
		{"release", []string{"DELETE FROM hold"}},
		// A failure is taken back by a person.
		{"w failed on a word", []string{born("w", "w", "gate='G'; token='tw'"), moved("w",
			`state='failed'; unproven=1; verb='settle'; facts='{"outcome":"failed"}'`)}},
		{"!machine: failed to in doubt", []string{moved("w", "state='uncertain'; verb='undo'")}},
		{"!a person, but no verb of undo", []string{moved("w", "state='uncertain'; verb='note'"+person)}},
		{"!undo with a permission", []string{moved("w", fmt.Sprintf("state='uncertain'; verb='undo'; allow_until=%d", lately+9999)+person)}},
		{"!undo that counts an attempt", []string{moved("w", "state='uncertain'; attempt=2; unproven=2; verb='undo'"+person)}},
		{"!undo, and a machine may settle it", []string{moved("w", "state='uncertain'; verb='undo'"+person)}},
		{"undo", []string{moved("w", "state='uncertain'; person_only=1; verb='undo'"+person)}},
		{"!a check settles it anew", []string{moved("w", `state='failed'; unproven=0; verb='read'; facts='{"proof":"not_there"}'`)}},
		// Moved to a file.
		{"!delete op", []string{"DELETE FROM op WHERE id='f1'"}},
		{"!delete history", []string{"DELETE FROM ev WHERE op=" + of("f1")}},
		{"!moved, but no prune", []string{thinned("f1", of("f1"), "")}},
		{"a note of verb prune on an operation", []string{event(", about", of("f1")+", 'p0', 'prune', 'cron', 'file:x'")}},
		{"!moved by that", []string{thinned("f1", "(SELECT seq FROM ev WHERE id='p0')", "")}},
		{"prune, and a file", []string{event(", reason, about", "0, 'p1', 'prune', 'cron', 'older than 90 d', 'file:ops-1.jsonl.gz'")}},
		{"!moved to the future", []string{thinned("f1", "1000000000000000", "")}},
		{"!moved, payload kept", []string{"UPDATE op SET moved=" + thePrune + ", change_id='' WHERE id='f1'"}},
		{"!moved, change id kept: its event could be forged", []string{"UPDATE op SET moved=" + thePrune + ", payload=NULL WHERE id='f1'"}},
		{"!moved and its state changed", []string{thinned("f1", thePrune, ", state='failed', reason='r'")}},
		{"!moved and its facts changed", []string{thinned("f1", thePrune, ", facts='{}'")}},
		{"!in doubt is not moved", []string{thinned("b", thePrune, "")}},
		{"!in flight is not moved", []string{thinned("a", thePrune, "")}},
		{"a conflict, an undelivered answer", []string{moved("h1", "conflict='contradiction'; verb='late'"), born("u", "u",
			"undelivered=1"), moved("u", refused)}},
		{"a permission", []string{born("v", "v", ""), moved("v", `state='failed'; unproven=1; verb='settle'; facts='{"outcome":"failed"}'`),
			moved("v", fmt.Sprintf("allow_until=%d; verb='grant'", lately+9999)+person)}},
		{"!v is not moved", []string{thinned("v", thePrune, "")}},
		{"!h1 is not moved", []string{thinned("h1", thePrune, "")}},
		{"!u is not moved", []string{thinned("u", thePrune, "")}},
		{"f1 is moved", []string{thinned("f1", thePrune, "")}},
		{"!moved back", []string{thinned("f1", "0", "")}},
		{"!moved back by OR REPLACE and NULL", []string{"UPDATE OR REPLACE op SET moved=NULL, payload=NULL, change_id='' WHERE id='f1'"}},
		{"!its newest event forged before it goes", []string{event(", before, state, outcome",
			of("f1")+", '', 'settle', 'x', 'committed', 'failed', 'failed'")}},
		{"its events go", []string{"DELETE FROM ev WHERE op=" + of("f1") + " AND seq < " + thePrune}},
		{"!a birth forged after", []string{event(", before, state", of("f1")+", 'z', 'begin', 'x', '', 'pending'")}},
		{"!the prune itself deleted", []string{"DELETE FROM ev WHERE seq=" + thePrune}},
		{"!history of the ledger replaced, op NULL becomes 0",
			[]string{"INSERT OR REPLACE INTO ev (op, id, verb, actor) VALUES (NULL, 'p1', 'prune', 'x')"}},
		{"!history before the first row, under the bound", []string{event(", seq", of("f1")+", 'neg', 'note', 'x', -5")}},
		{"!a number of its own", []string{event(", seq", of("f1")+", 'own', 'note', 'x', 2")}},
		{"!delete op, moved", []string{"DELETE FROM op WHERE id='f1'"}},
		{"!its key again", []string{"INSERT INTO intent (id, kind, key, actor) VALUES ('f3', 'mail', 'INV-1', 'cron')"}},
		{"!its id again", []string{"INSERT INTO intent (id, kind, key, actor) VALUES ('f1', 'mail', 'INV-9', 'cron')"}},
		{"a note on what was moved", []string{event("", of("f1")+", 'n9', 'note', 'kim'")}},
		{"a second receipt: conflict", []string{moved("f1",
			`receipts='["r1","r2"]'; effects=2; conflict='duplicate'; verb='late'; facts='{"n":1}'`)}},
		{"!in conflict its name stays", []string{moved("f1", "live=0; verb='expire'")}},
		{"!machine undoes what was moved", []string{moved("f1", "state='uncertain'; verb='undo'")}},
		{"a person says what is true, undoes it, confirms it", []string{moved("f1", "conflict=''; verb='ack'"+person), moved("f1",
			"state='uncertain'; unproven=1; person_only=1; verb='undo'"+person), moved("f1",
			"state='committed'; verb='confirm'"+person)}},
		{"!they are history", []string{"DELETE FROM ev WHERE op=" + of("f1")}},
		{"a second prune", []string{event(", about", "0, 'p2', 'prune', 'cron', 'file:ops-2.jsonl.gz'")}},
		{"!moves it no further", []string{thinned("f1", "(SELECT seq FROM ev WHERE id='p2')", "")}},
		{"!delete all history", []string{"DELETE FROM ev"}},
		{"plain SQL under a name that was given up", []string{born("m1", "M", "kind='mail'"), moved("m1", refused), "UPDATE op SET live=0 WHERE id='m1'",
			"INSERT INTO intent (id, kind, key, actor) VALUES ('m2', 'mail', 'M', 'cron')"}},
		{"!and again", []string{"INSERT INTO intent (id, kind, key, actor) VALUES ('m3', 'mail', 'M', 'cron')"}},
		// The policy.
		{"!a policy of a number to come", []string{event(", machine, version, about, facts", `0, 'y1', 'policy', 'ann', 0, 7, 'policy',
			'{"detail":{"digest":"d","files":[]}}'`)}},
		{"!a policy without a text", []string{event(", machine, version, about, facts", `0, 'y1', 'policy', 'ann', 0, 1, 'policy',
			'{"detail":{"digest":"d"}}'`)}},
		{"!a policy of a machine", []string{event(", version, about, facts", `0, 'y1', 'policy', 'ann', 1, 'policy',
			'{"detail":{"digest":"d","files":[]}}'`)}},
		{"policies", []string{event(", machine, version, about, facts", `0, 'y1', 'policy', 'ann', 0, 1, 'policy',
			'{"detail":{"digest":"d","files":[]}}'`),
			event(", machine, version, about, facts", `0, 'y2', 'policy', 'ann', 0, 2, 'policy', '{"detail":{"digest":"e","files":[]}}'`)}},
		{"!a begin under an older one", []string{born("y", "y", "") + ` RETURNING 1`, `!`, strings.Replace(born("y3", "y3", ""),
			`"sender"`, `"policy":1,"sender"`, 1)}},
		{"!not there, by an older one", []string{event(", facts", `2, 'y5', 'look', 'auto',
			'{"read":{"verdict":"not_there","digest":"d"}}'`)}},
		// Redact, forgeries, a ledger that was moved.
		{"!edit history", []string{"UPDATE ev SET reason='x'"}},
		{"one in doubt", []string{born("sd", "sd", ""), moved("sd", "state='uncertain'; unproven=1; "+lost)}},
		{"an outage and a run are told, and others", []string{
			fmt.Sprintf(`INSERT INTO outage (id, scope, kinds, pipelines, classes, gap_ms, opened_at, first_at, last_at) VALUES
				('x@1', 'kind:x', '[]', '[]', '[]', 600000, %[1]d, %[1]d, %[1]d), ('x@2', 'kind:x', '[]', '[]', '[]', 60, 9, 9, 9)`, lately),
			"INSERT INTO ev (op, id, verb, actor, about, reason, payload) VALUES (0, 'og', 'outage_noted', 'kim', 'outage:x@1', 's failed', '{}')",
			"INSERT INTO ev (op, id, verb, actor, about, reason, payload) VALUES (0, 'oh', 'outage_noted', 'kim', 'outage:x@2', 'd failed', '{}')",
			event(", about, reason, facts", `0, 'rn', 'run', 'kim', 'run:rn', 's again', '{"detail":{"set":[{"operation":"s"}]}}'`),
			event(", about, reason, facts", `0, 'ro', 'run', 'kim', 'run:ro', 'd again', '{"detail":{"set":[{"operation":"d"}]}}'`)}},
		{"!their text is taken out, and nobody redacted", []string{"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE id='og'"}},
		{"!a run's, too", []string{"UPDATE ev SET payload=NULL WHERE id='rn'"}},
		{"!by an event that says redact", []string{
			"INSERT INTO ev (op, id, verb, actor, machine, before, state) SELECT seq, 'fr', 'redact', 'kim', 0, state, state FROM op WHERE id='s'", "!",
			"UPDATE ev SET payload=NULL WHERE id='rn'"}},
		{"!a machine redacts", []string{moved("s", "verb='redact'; payload=NULL"), "!", "UPDATE ev SET payload=NULL WHERE op=" + of("s")}},
		{"!what is in doubt is redacted", []string{moved("sd", "verb='redact'; payload=NULL"+person)}},
		{"!redacted to another name", []string{moved("s", "verb='redact'; payload=NULL; name='other'"+person)}},
		{"!redacted to another title", []string{moved("s", "verb='redact'; payload=NULL; title='other'"+person)}},
		{"redact", []string{moved("s", "verb='redact'; payload=NULL; name='[redacted sha256:s]'"+person),
			"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE op=" + of("s") + " AND verb <> 'redact'"}},
		{"what outages and runs say of it", []string{"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE id IN ('og', 'rn')"}},
		{"!its text put back", []string{"UPDATE ev SET payload='{}' WHERE op=" + of("s") + " AND verb <> 'redact'"}},
		{"!its history told otherwise", []string{"UPDATE ev SET reason='x' WHERE op=" + of("s") + " AND verb <> 'redact'"}},
		{"!signed by another", []string{"UPDATE ev SET actor='x', reason='[redacted]' WHERE op=" + of("s") + " AND verb <> 'redact'"}},
		{"!the history of another", []string{"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE op=" + of("e")}},
		{"!its input again", []string{moved("s", `payload='{"op":{"input":1}}'; verb='note'`+person)}},
		{"!its request, by a note", []string{event(", payload", of("s")+`, 'nr', 'note', 'kim', '{"op":{"request":{"method":"POST"}}}'`)}},
		{"!what is in flight is redacted", []string{moved("a", "verb='redact'; payload=NULL"+person)}},
		{"!without a reason", []string{moved("s", "verb='redact'; payload=NULL; reason=' '; name='[redacted sha256:t]'"+person)}},
		{"!redacted to the name of another, which is gone then", []string{strings.Replace(moved("@", "verb='redact'; payload=NULL; name='[redacted sha256:s]'"+person,
			"OR REPLACE"), "id = '@'", "seq = (SELECT seq FROM op WHERE kind = 'x' AND state IN ('committed', 'failed') AND conflict = '' AND n = 0 AND id <> 's' LIMIT 1)", 1)}},
		{"!what another outage says", []string{"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE id='oh'"}},
		{"!what another run says", []string{"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE id='ro'"}},
		{"!the redaction itself", []string{"UPDATE ev SET reason='[redacted]' WHERE op=" + of("s")}},
		{"!the name once more, in silence", []string{"UPDATE op SET name='other' WHERE id='s'"}},
		{"!edit facts under redact", []string{"UPDATE ev SET facts=NULL WHERE op=" + of("s") + " AND verb <> 'redact'"}},
		{"!payload of the ledger emptied", []string{"UPDATE ev SET payload=NULL WHERE op=0"}},
		{"!forged outcome", []string{event(", outcome", "1, 'z', 'settle', 'x', 'committed'")}},
		{"!forged proof", []string{event(", facts", `1, 'z', 'note', 'x', '{"proof":"refused"}'`)}},
		{"!forged late answer", []string{event(", n, facts", `1, 'z', 'note', 'x', 1, '{"late_outcome":"failed"}'`)}},
		{"!forged permission", []string{event(", facts", `1, 'z', 'note', 'x', '{"grants":{"g":{"version":3}}}'`)}},
		{"!forged proof of another attempt", []string{event(", facts", `1, 'z', 'note', 'x', '{"attempts":{"1":{"proof":"not_there"}}}'`)}},
		{"!proof taken out", []string{event(", n, facts", `1, 'z', 'note', 'x', 1, '{"gone":["proof"]}'`)}},
		{"!forged attempt", []string{event(", n", `1, 'z', 'note', 'x', 9`)}},
		{"!forged conflict", []string{event(", conflict", "1, 'z', 'late', 'x', 'duplicate'")}},
		{"!an event of no operation", []string{event("", "99999, 'z', 'note', 'x'")}},
		{"moved ledger", []string{"INSERT INTO meta VALUES ('moved_to', 'postgres')"}},
		{"!begin in it", []string{born("q", "q", "")}},
		{"!a person begins in it", []string{born("q", "q", "machine=0")}},
	} {
		var err error
		wrong := strings.HasPrefix(step.name, "!")
		for i, sql := range step.sql {
			if sql == "!" {
				err = nil
				continue
			}
			if err = m.conn.Script(t.Context(), sql); err != nil && !(wrong && i == len(step.sql)-1) {
				break
			}
		}
		err = refusal(err)
		if wrong && err != nil {
			said = append(said, err.Error())
		}
		switch {
		case wrong && err == nil:
			t.Errorf("%s: not refused", step.name)
		case wrong && !errors.Is(err, ledger.ErrGuard):
			t.Errorf("%s: %v", step.name, err)
		case !wrong && err != nil:
			t.Errorf("%s: wrongly refused: %v", step.name, err)
		}
	}
	for _, rule := range regexp.MustCompile(`RAISE\(ABORT, '((?:[^']|'')+)'\)`).FindAllStringSubmatch(sqliteSchema(), -1) {
		says := strings.ReplaceAll(rule[1], "''", "'")
		need.That(t, slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, says) }), "no step is refused with %q", says)
	}
	var left int
	need.OK(t, One(m, []any{&left}, `SELECT count(*) FROM ev WHERE op = `+of("f1")))
	need.That(t, left == 5, "%d events of what was moved, and five came since: two notes less one, a receipt, and three of a person", left)
}
