package ledgertest

import (
	"fmt"
	"strings"
)

// refusedSteps are attacks on one ledger and legal walks between them, in this order. What begins
// with ! must be refused, each statement of it; after a statement ! only what follows.
var refusedSteps = []refusedStep{
	// The gate, attempts, permissions.
	{"begin a", "", []string{born("a", "k1", "gate='S1'; token='t1'")}},
	{"!identical under another key, in flight", "the same request is in flight", []string{born("b", "k2", "gate='S1'")}},
	{"!OR REPLACE over the same", "the same request is in flight", []string{born("b", "k2", "gate='S1'", "OR REPLACE")}},
	{"!OR REPLACE over a name, scope NULL becomes its default", "an operation begins as pending", []string{
		born("b", "k1", "scope=NULL", "OR REPLACE")}},
	{"!a second of the name", "this key is in use by another", []string{born("b", "k1", "n=1")}},
	{"!upsert", "this operation is recorded", []string{
		born("a", "k9", "") + " ON CONFLICT (id) DO UPDATE SET state='failed'"}},
	{"!n changed", "what an operation is never", []string{moved("a", "n=1")}},
	{"!token changed", "what an operation is never", []string{moved("a", "token='t2'")}},
	{"!born moved", "an operation begins as pending", []string{born("b", "k2", "moved=1")}},
	{"!born settled", "an operation begins as pending", []string{born("b", "k2", "state='committed'")}},
	{"!born of a blank name, or by nobody", "bounds", []string{
		born("b", " ", ""), born("b", "k2", "actor=''"), born("b", "k2", "machine=2"), born("b", "k2", "live=2")}},
	{"!born with what is no JSON", "json", []string{born("b", "k2", "payload='{'")}},
	{"!born without a scope, a number, a name that is live", "begins as pending", []string{
		born("b", "k2", "scope=NULL"), born("b", "k2", "n=NULL"), born("b", "k2", "live=NULL")}},
	{"!born with what comes later", "begins as pending", []string{
		born("b", "k2", "attempt=2"), born("b", "k2", "unproven=1"), born("b", "k2", "conflict='twice'"),
		born("b", "k2", "verdict='landed'"), born("b", "k2", "effects=1"), born("b", "k2", "doubted=1"), born("b", "k2", "person_only=1"),
		born("b", "k2", "awaits='x'")}},
	{"!born without a change id", "an operation begins as pending", []string{born("b", "k2", "change_id=''")}},
	{"!OR IGNORE: born without an event", "an operation begins as pending", []string{born("b", "k2", "change_id=''", "OR IGNORE")}},
	{"!row 0: the ledger is no operation", "bounds", []string{born("b", "k2", "seq=0")}},
	{"!a deadline of seconds", "deadline_at must come after", []string{
		"INSERT INTO op (id, kind, name, deadline_at, actor) VALUES ('b', 'x', 'k2', 1790000000, 'n')"}},
	{"!a deadline in two years", "within a year", []string{born("b", "k2", fmt.Sprint("deadline_at=", lately+2*year))}},
	{"!what it is", "what an operation is never changes", []string{
		moved("a", "seq=99"), moved("a", "id='z'"), moved("a", "kind='z'"), moved("a", "scope='z'"), moved("a", "name='z'"),
		moved("a", "key='z'"), moved("a", "input='z'"), moved("a", "source='z'"), moved("a", "created_at=created_at+1"), moved("a",
			"ttl_ms=1")}},
	{"a uncertain", "", []string{moved("a",
		"state='uncertain'; unproven=1; doubted=1; verb='settle'; payload='{\"error\":\"timeout\"}'; "+lost)}},
	{"!identical, in doubt", "the same request is in flight", []string{born("b", "k2", "gate='S1'")}},
	{"!second attempt", "another attempt needs permission", []string{moved("a", "state='pending'; attempt=2")}},
	{"!no version, no change id: what a decision is bound to", "a change needs a new change_id", []string{
		set("a", "verdict='landed'"), set("a", "effects=1"), set("a", "conflict='twice'"),
		set("a", "person_only=1"), set("a", "unproven=0"), set("a", "attempt=2"), set("a", "allow_until=1"), set("a", "abandoned=1"),
		set("a", "state='failed'")}},
	{"!a machine retries", "another attempt needs permission", []string{moved("a", "state='pending'; attempt=2; verb='retry'")}},
	{"!OR REPLACE, machine NULL: abandon", "only a person abandons, and", []string{moved("a", "abandoned=1; machine=NULL", "OR REPLACE")}},
	{"!name given up in doubt", "a name is given up once", []string{moved("a", "live=0; verb='expire'")}},
	{"!in silence, too", "a name is given up once", []string{"UPDATE op SET live=0 WHERE id='a'"}},
	{"!a machine allows", "a permission is a person's", []string{moved("a", fmt.Sprintf("allow_until=%d; verb='allow'", lately+1000))}},
	{"a permission that is over", "", []string{moved("a", "allow_until=1; verb='allow'"+person)}},
	{"!sent by it", "another attempt needs permission", []string{moved("a", "state='pending'; attempt=2; allow_until=0; verb='begin'")}},
	{"allow", "", []string{moved("a", fmt.Sprintf("allow_until=%d; verb='allow'", lately+1000)+person)}},
	{"!a permission for longer", "a permission is a person's", []string{moved("a", "allow_until=allow_until+1; verb='note'"+person)}},
	{"!check lands but keeps the permission", "a permission is a person's", []string{
		moved("a", "state='committed'; person_only=1; verb='read'")}},
	{"note beside it", "", []string{event("", "1, 'note1', 'note', 'kim'")}},
	{"!the same note, or in its place", "in the history already", []string{
		event("", "1, 'note1', 'note', 'kim'"), event("", "1, 'note1', 'note', 'kim'") +
			" ON CONFLICT (op, id) DO UPDATE SET actor = 'eve'"}},
	{"permission still there, consumed", "", []string{moved("a", "state='pending'; attempt=2; allow_until=0; verb='begin'")}},
	{"!failed while 1 is unknown", "an earlier attempt of this", []string{moved("a", refused)}},
	{"attempt 2 refused, in doubt stays", "", []string{moved("a",
		`state='uncertain'; verb='settle'; facts='{"outcome":"failed","proof":"refused"}'`)}},
	{"!a doubt less without a word", "unproven shrinks only by", []string{moved("a", "unproven=0; verb='late'")}},
	{"!by the proof of an earlier change", "an outcome, a proof and a", []string{
		strings.Replace(moved("a", "unproven=0; verb='late'"), ", facts=NULL", "", 1)}},
	{"late refusal of 1", "", []string{moved("a", `state='failed'; unproven=0; verb='late'; facts='{"proof":"refused","n":1}'`)}},
	{"identical begins: a is failed", "", []string{born("b", "k2", "gate='S1'")}},
	{"!a again beside b", "the same request is in flight", []string{moved("a", "state='pending'; attempt=3; verb='begin'")}},
	{"b uncertain", "", []string{moved("b", "state='uncertain'; unproven=1; "+lost)}},
	{"!machine abandons", "only a person abandons, and", []string{moved("b", "abandoned=1; verb='abandon'")}},
	{"abandon", "", []string{moved("b", "abandoned=1; verb='abandon'"+person)}},
	{"a again: b is abandoned", "", []string{moved("a", "state='pending'; attempt=3; verb='begin'")}},
	{"!undo of abandon while a flies", "the same request is in flight", []string{moved("b", "abandoned=0; verb='undo'"+person)}},
	{"undo that gives the gate up", "", []string{moved("b", "abandoned=0; gate=''; verb='undo'"+person)}},
	{"s uncertain", "", []string{
		born("s", "ks", "gate='S2'"), moved("s", fmt.Sprintf("state='uncertain'; unproven=1; ended_at=%d; ", lately)+lost)}},
	{"!a check that leaves a doubt", "a person alone says that", []string{
		moved("s", `state='failed'; unproven=1; verb='read'; facts='{"proof":"not_there"}'`)}},
	{"s again under a key that is safe", "", []string{moved("s",
		`state='pending'; attempt=2; verb='begin'; facts='{"basis":"key_safe"}'`)}},
	{"s committed", "", []string{moved("s",
		`state='committed'; person_only=1; verb='settle'; effects=1; receipts='["r1"]'; `+
			`facts='{"outcome":"committed"}'; payload='{"receipt":"r1"}'`)}},
	{"!machine undoes", "the state cannot change like", []string{moved("s", "state='uncertain'; verb='undo'")}},
	{"!undo and give the name up at once", "a name is given up once", []string{
		moved("s", "state='uncertain'; live=0; verb='undo'"+person)}},
	{"!committed to failed, or in flight", "the state cannot change like", []string{
		moved("s", "state='failed'"+person), moved("s", "state='pending'; attempt=3; verb='retry'"+person)}},
	{"!a person's alone taken back", "what only a person settles", []string{moved("s", "person_only=0"+person)}},
	{"!gate emptied in silence", "a change needs a new change_id", []string{"UPDATE op SET gate='' WHERE id='s'"}},
	{"!token_sent in silence", "a change needs a new change_id", []string{"UPDATE op SET token_sent=1 WHERE id='s'"}},
	{"!receipts changed in silence", "a change needs a new change_id", []string{"UPDATE op SET receipts='[]' WHERE id='s'"}},
	{"!words of the newest change changed in silence", "without a new change_id nothing", []string{
		"UPDATE op SET verb='redact', machine=0 WHERE id='s'"}},
	{"!payload emptied in silence", "without a new change_id nothing", []string{"UPDATE op SET payload=NULL WHERE id='s'"}},
	{"!version far ahead", "without a new change_id nothing", []string{"UPDATE op SET version=version+5 WHERE id='s'"}},
	{"!no reason", "a change needs a new change_id", []string{moved("s", "conflict='twice'; reason=' '")}},
	{"undone", "", []string{moved("s", "state='uncertain'; unproven=2; verb='undo'"+person)}},
	{"!a machine says that it failed", "a person alone says that", []string{
		moved("s", `state='failed'; unproven=0; verb='read'; facts='{"proof":"not_there"}'`)}},
	{"a person confirms", "", []string{moved("s", "state='committed'; verb='confirm'"+person)}},
	{"!a name that is had by the other, born beside it", "this key is in use by another", []string{born("s2", "ks", "n=0; live=0")}},
	{"name given up, and new begin under it, n 1", "", []string{"UPDATE op SET live=0 WHERE id='s'", born("s2", "ks", "n=1; gate='S2'")}},
	{"!name taken back", "a name is given up once", []string{"UPDATE op SET live=1 WHERE id='s'"}},
	// What it is called, its times, and the end of an attempt.
	{"e in flight", "", []string{born("e", "e", "target='t'; title='w'; mark='m'; gate='S9'")}},
	{"!another target", "gate, target and title are", []string{moved("e", "target='u'")}},
	{"!another title in silence", "gate, target and title are", []string{"UPDATE op SET title='u' WHERE id='e'"}},
	{"!marks taken away", "gate, target and title are", []string{"UPDATE op SET mark='' WHERE id='e'"}},
	{"a mark more", "", []string{"UPDATE op SET mark='mm' WHERE id='e'"}},
	{"!an earlier deadline", "what has ended stays so", []string{"UPDATE op SET deadline_at=deadline_at-1 WHERE id='e'"}},
	{"a question with a day to answer it, and then an hour for the rest", "", []string{
		moved("e", "awaits='input'; deadline_at=deadline_at+86400000"), moved("e", "awaits='answer'; deadline_at=deadline_at-82800000")}},
	{"!an earlier deadline for the same answer", "what has ended stays so", []string{moved("e", "deadline_at=deadline_at-1")}},
	{"!a deadline in two years", "within a year", []string{"UPDATE op SET deadline_at=deadline_at+63000000000 WHERE id='e'"}},
	{"!no deadline, through NULL", "what has ended stays so", []string{"UPDATE OR REPLACE op SET deadline_at=NULL WHERE id='e'"}},
	{"a heartbeat", "", []string{"UPDATE op SET deadline_at=deadline_at+1 WHERE id='e'"}},
	{"!an end without an outcome", "what ends the attempt in", []string{moved("e", "state='uncertain'; unproven=1")}},
	{"!it failed, and its attempt did not", "what ends the attempt in", []string{
		moved("e", `state='failed'; unproven=1; facts='{"outcome":"committed"}'`)}},
	{"!the end of another attempt", "an outcome, a proof and a", []string{
		moved("e", `state='uncertain'; unproven=1; facts='{"outcome":"uncertain","n":2}'`)}},
	{"!the end of no attempt", "number", []string{moved("e", `state='uncertain'; unproven=1; facts='{"outcome":"uncertain","n":"x"}'`)}},
	{"!an outcome of what goes on", "what ends the attempt in", []string{moved("e", lost)}},
	{"!a proof of what goes on", "an outcome, a proof and a", []string{moved("e", `verb='begin'; facts='{"proof":"not_there"}'`)}},
	{"!a lost answer that counts for nothing", "an outcome that is not proven", []string{moved("e", "state='uncertain'; "+lost)}},
	{"!and is proven, too", "an outcome that is not proven", []string{
		moved("e", `state='uncertain'; facts='{"outcome":"uncertain","proof":"refused"}'`)}},
	{"!and a refusal that counts, or a proof that no answer is", "an outcome that is not proven", []string{
		moved("e", `state='uncertain'; unproven=1; facts='{"outcome":"failed","proof":"refused"}'`),
		moved("e", `state='uncertain'; unproven=1; facts='{"outcome":"failed","proof":"not_there"}'`)}},
	{"!unproven in flight", "an attempt is in flight only", []string{moved("e", "unproven=1")}},
	{"e in doubt", "", []string{
		moved("e", fmt.Sprintf("state='uncertain'; unproven=1; doubted=1; ended_at=%d; deadline_at=0; ", lately)+lost)}},
	{"!an earlier end", "what has ended stays so", []string{moved("e", "ended_at=1")}},
	{"!a doubt forgotten", "what has ended stays so", []string{moved("e", "doubted=0")}},
	{"!times in silence", "without a new change_id nothing", []string{"UPDATE op SET started_at=1 WHERE id='e'"}},
	{"!parked in silence", "without a new change_id nothing", []string{"UPDATE op SET parked_until=9 WHERE id='e'"}},
	{"!a machine says that it failed, and proves it by nothing", "a person alone says that", []string{
		moved("e", "state='failed'; verb='late'")}},
	{"!or by no proof that there is", "unproven shrinks only by", []string{
		moved("e", `state='failed'; unproven=0; verb='late'; facts='{"proof":"x"}'`)}},
	{"!a proof that counts for nothing", "a proof that is said later", []string{moved("e", `verb='late'; facts='{"proof":"not_there"}'`)}},
	{"!more may have acted than were sent", "bounds", []string{moved("e", "unproven=2; verb='late'"+person)}},
	{"!in flight again, and abandoned: no gate holds it", "an attempt is in flight only", []string{
		moved("e", fmt.Sprintf("state='pending'; attempt=2; abandoned=1; verb='retry'; deadline_at=%d", lately+9)+person)}},
	{"!a further attempt, told of the first", "an outcome, a proof and a", []string{
		moved("e", fmt.Sprintf(`state='pending'; attempt=2; verb='retry'; facts='{"n":1}'; deadline_at=%d`, lately+9)+person)}},
	{"!a version far ahead", "the version of an operation", []string{
		"UPDATE op SET version=version+5, change_id='cv', reason='r', facts=NULL WHERE id='e'"}},
	{"!a change id that was used", "this change id is in the", []string{
		"UPDATE op SET version=version+1, reason='r', facts=NULL, change_id=(SELECT id FROM ev WHERE op=" +
			of("e") + " AND verb='begin') WHERE id='e'"}},
	{"!born with an outcome", "an operation begins as pending", []string{
		strings.Replace(born("e2", "e2", ""), `"sender"`, `"outcome":"failed","sender"`, 1)}},
	{"!born with an end", "an operation begins as pending", []string{born("e2", "e2", "ended_at=9")}},
	// Plain SQL.
	{"intent", "", []string{`INSERT INTO intent (id, kind, key, input, actor, token) VALUES ('f1', 'mail', 'INV-1', '{"a":1}', 'cron',
		'tf')`}},
	{"!intent, same key", "this key is in use by another", []string{
		`INSERT INTO intent (id, kind, key, actor) VALUES ('f2', 'mail', 'INV-1', 'cron')`}},
	{"!signed as a check", "checks and clock are names", []string{
		`INSERT INTO intent (id, kind, key, actor) VALUES ('f2', 'mail', 'INV-2', ' Checks ')`}},
	{"!settled by the clock", "checks and clock are names", []string{
		`INSERT INTO settle (attempt, outcome, actor) VALUES ('f1.1', 'committed', 'clock')`}},
	{"!settle failed with no known proof", "outcome is committed, failed", []string{
		`INSERT INTO settle (attempt, outcome, proof) VALUES ('f1.1', 'failed',
		'absent')`}},
	{"!settle names no attempt", "no first attempt of this", []string{`INSERT INTO settle (attempt, outcome) VALUES ('f1', 'committed')`}},
	{"!settle names attempt 2", "no first attempt of this", []string{`INSERT INTO settle (attempt, outcome) VALUES ('f1.2', 'committed')`}},
	{"!settle names NULL", "no first attempt of this", []string{`INSERT INTO settle (outcome) VALUES ('committed')`}},
	{"settle", "", []string{`INSERT INTO settle (attempt, outcome, receipt, actor, result) VALUES ('f1.1', 'committed', 'r1', 'cron',
		'{"id":1}')`}},
	{"!settle twice", "no first attempt of this", []string{
		`INSERT INTO settle (attempt, outcome, actor) VALUES ('f1.1', 'failed', 'cron')`}},
	// Holds on begins.
	{"hold without begins, a hold on another kind, one that is over", "", []string{`INSERT INTO hold (scope, actor, reason, begins,
		created_at, until, change_id) VALUES
		('kind:x', 'kim', 'r', 0, 1, 0, 'h1'), ('kind:y', 'kim', 'r', 1, 1, 0, 'h2'), ('kind:mail', 'kim', 'r', 1, 1, 2, 'h3')`}},
	{"!a second hold, one without a reason", "constraint", []string{
		"INSERT INTO hold (scope, actor, reason, created_at, change_id) VALUES ('kind:x', 'kim', 'r', 1, 'h9')",
		"INSERT INTO hold (scope, actor, reason, created_at, change_id) VALUES ('kind:z', 'kim', ' ', 1, 'h9')"}},
	{"begins go on", "", []string{born("h1", "h1", "")}},
	{"hold begins of x", "", []string{"UPDATE hold SET begins=1 WHERE scope='kind:x'"}},
	{"!machine begins x", "begins are held here: indoubt", []string{born("h2", "h2", "")}},
	{"what was sent before is recorded, and settles", "", []string{born("h5", "h5", "started_at=1"), moved("h5", refused)}},
	{"!OR REPLACE, machine NULL begins x", "begins are held here: indoubt", []string{born("h2", "h2", "machine=NULL", "OR REPLACE")}},
	{"!machine 2", "bounds", []string{born("h2", "h2", "machine=2")}},
	{"a person begins x", "", []string{born("h2", "h2", "machine=0")}},
	{"a machine settles under it", "", []string{moved("h1", refused)}},
	{"!one more may have acted", "unproven grows where", []string{moved("h1", "unproven=1; verb='late'")}},
	{"hold everything", "", []string{
		"INSERT INTO hold (scope, actor, reason, begins, created_at, change_id) VALUES ('all', 'kim', 'r', 1, 1, 'h4')"}},
	{"!intent under it", "begins are held here: indoubt", []string{
		"INSERT INTO intent (id, kind, key, actor) VALUES ('f6', 'mail', 'INV-6', 'cron')"}},
	{"release", "", []string{"DELETE FROM hold"}},
	// What an adoption leaves behind.
	{"it is over", "", []string{`INSERT INTO hold (scope, kinds, actor, reason, created_at, until, change_id)
		VALUES ('look', '["note"]', 'kim', 'r', 1, 1, 'h6')`,
		"INSERT INTO intent (id, kind, key, actor) VALUES ('f6', 'mail', 'INV-6', 'cron')"}},
	{"it is not", "", []string{"UPDATE hold SET until = 0 WHERE scope = 'look'"}},
	{"!intent", "may have lost that this was sent", []string{
		"INSERT INTO intent (id, kind, key, actor) VALUES ('f7', 'mail', 'INV-7', 'cron')"}},
	{"!intent of a kind like one that a person lets go", "may have lost that this was sent", []string{
		"INSERT INTO intent (id, kind, key, actor) VALUES ('f7', 'n_te', 'INV-7', 'cron')"}},
	{"!intent of what is like each", "may have lost that this was sent", []string{
		"INSERT INTO intent (id, kind, key, actor) VALUES ('f7', '%', 'INV-7', 'cron')"}},
	{"a kind that a person lets go", "", []string{"INSERT INTO intent (id, kind, key, actor) VALUES ('f7', 'note', 'INV-7', 'cron')"}},
	{"looked", "", []string{"DELETE FROM hold"}},
	// A failure is taken back by a person.
	{"w failed on a word", "", []string{born("w", "w", "gate='G'; token='tw'"), moved("w",
		`state='failed'; unproven=1; verb='settle'; facts='{"outcome":"failed"}'`)}},
	{"!machine: failed to in doubt", "the state cannot change like", []string{moved("w", "state='uncertain'; verb='undo'")}},
	{"!a person, but no verb of undo", "the state cannot change like", []string{moved("w", "state='uncertain'; verb='note'"+person)}},
	{"!undo with a permission", "the state cannot change like", []string{
		moved("w", fmt.Sprintf("state='uncertain'; verb='undo'; allow_until=%d", lately+9999)+person)}},
	{"!undo that counts an attempt", "the state cannot change like", []string{
		moved("w", "state='uncertain'; attempt=2; unproven=2; verb='undo'"+person)}},
	{"!undo, and a machine may settle it", "the state cannot change like", []string{moved("w", "state='uncertain'; verb='undo'"+person)}},
	{"undo", "", []string{moved("w", "state='uncertain'; person_only=1; verb='undo'"+person)}},
	{"!a check settles it anew", "a person alone says that", []string{
		moved("w", `state='failed'; unproven=0; verb='read'; facts='{"proof":"not_there"}'`)}},
	// Moved to a file.
	{"!delete op", "operations are never deleted", []string{"DELETE FROM op WHERE id='f1'"}},
	{"!delete history", "the history is never deleted", []string{"DELETE FROM ev WHERE op=" + of("f1")}},
	{"!moved, but no prune", "only what is settled and", []string{thinned("f1", of("f1"), "")}},
	{"a note of verb prune on an operation", "", []string{event(", about", of("f1")+", 'p0', 'prune', 'cron', 'file:x'")}},
	{"!moved by that", "only what is settled and", []string{thinned("f1", "(SELECT seq FROM ev WHERE id='p0')", "")}},
	{"prune, and a file", "", []string{event(", reason, about", "0, 'p1', 'prune', 'cron', 'older than 90 d', 'file:ops-1.jsonl.gz'")}},
	{"!moved to the future", "only what is settled and", []string{thinned("f1", "1000000000000000", "")}},
	{"!moved, payload kept", "only what is settled and", []string{"UPDATE op SET moved=" + thePrune + ", change_id='' WHERE id='f1'"}},
	{"!moved, change id kept: its event could be forged", "only what is settled and", []string{
		"UPDATE op SET moved=" + thePrune + ", payload=NULL WHERE id='f1'"}},
	{"!moved and its state changed", "a change needs a new change_id", []string{thinned("f1", thePrune, ", state='failed', reason='r'")}},
	{"!moved and its facts changed", "without a new change_id nothing", []string{thinned("f1", thePrune, ", facts='{}'")}},
	{"!in doubt is not moved", "only what is settled and", []string{thinned("b", thePrune, "")}},
	{"!in flight is not moved", "only what is settled and", []string{thinned("a", thePrune, "")}},
	{"a conflict, an undelivered answer", "", []string{moved("h1", "conflict='disputed'; verb='late'"), born("u", "u",
		"undelivered=1"), moved("u", refused)}},
	{"a permission", "", []string{born("v", "v", ""), moved("v", `state='failed'; unproven=1; verb='settle'; facts='{"outcome":"failed"}'`),
		moved("v", fmt.Sprintf("allow_until=%d; verb='allow'", lately+9999)+person)}},
	{"!v is not moved", "only what is settled and", []string{thinned("v", thePrune, "")}},
	{"!h1 is not moved", "only what is settled and", []string{thinned("h1", thePrune, "")}},
	{"!u is not moved", "only what is settled and", []string{thinned("u", thePrune, "")}},
	{"f1 is moved", "", []string{thinned("f1", thePrune, "")}},
	{"!moved back", "only what is settled and", []string{thinned("f1", "0", "")}},
	{"!moved back by OR REPLACE and NULL", "only what is settled and", []string{
		"UPDATE OR REPLACE op SET moved=NULL, payload=NULL, change_id='' WHERE id='f1'"}},
	{"!its newest event forged before it goes", "bounds", []string{event(", before, state, outcome",
		of("f1")+", '', 'settle', 'x', 'committed', 'failed', 'failed'")}},
	{"its events go", "", []string{"DELETE FROM ev WHERE op=" + of("f1") + " AND seq < " + thePrune}},
	{"!a birth forged after", "an event is of an operation", []string{
		event(", before, state", of("f1")+", 'z', 'begin', 'x', '', 'pending'")}},
	{"!the prune itself deleted", "the history is never deleted", []string{"DELETE FROM ev WHERE seq=" + thePrune}},
	{"!history of the ledger replaced, op NULL becomes 0", "an event is of an operation", []string{
		"INSERT OR REPLACE INTO ev (op, id, verb, actor) VALUES (NULL, 'p1', 'prune', 'x')"}},
	{"!history before the first row, under the bound", "bounds", []string{event(", seq", of("f1")+", 'neg', 'note', 'x', -5")}},
	{"!a number of its own", "the database numbers its", []string{event(", seq", of("f1")+", 'own', 'note', 'x', 2")}},
	{"!delete op, moved", "operations are never deleted", []string{"DELETE FROM op WHERE id='f1'"}},
	{"!its key again", "this key is in use by another", []string{
		"INSERT INTO intent (id, kind, key, actor) VALUES ('f3', 'mail', 'INV-1', 'cron')"}},
	{"!its id again", "this operation is recorded", []string{
		"INSERT INTO intent (id, kind, key, actor) VALUES ('f1', 'mail', 'INV-9', 'cron')"}},
	{"a note on what was moved", "", []string{event("", of("f1")+", 'n9', 'note', 'kim'")}},
	{"a second receipt: conflict", "", []string{moved("f1",
		`receipts='["r1","r2"]'; effects=2; conflict='twice'; verb='late'; facts='{"n":1}'`)}},
	{"!in conflict its name stays", "a name is given up once", []string{moved("f1", "live=0; verb='expire'")}},
	{"!machine undoes what was moved", "the state cannot change like", []string{moved("f1", "state='uncertain'; verb='undo'")}},
	{"a person says what is true, undoes it, confirms it", "", []string{moved("f1", "conflict=''; verb='ack'"+person), moved("f1",
		"state='uncertain'; unproven=1; person_only=1; verb='undo'"+person), moved("f1",
		"state='committed'; verb='confirm'"+person)}},
	{"!they are history", "the history is never deleted", []string{"DELETE FROM ev WHERE op=" + of("f1")}},
	{"a second prune", "", []string{event(", about", "0, 'p2', 'prune', 'cron', 'file:ops-2.jsonl.gz'")}},
	{"!moves it no further", "only what is settled and", []string{thinned("f1", "(SELECT seq FROM ev WHERE id='p2')", "")}},
	{"!delete all history", "the history is never deleted", []string{"DELETE FROM ev"}},
	{"plain SQL under a name that was given up", "", []string{
		born("m1", "M", "kind='mail'"), moved("m1", refused), "UPDATE op SET live=0 WHERE id='m1'",
		"INSERT INTO intent (id, kind, key, actor) VALUES ('m2', 'mail', 'M', 'cron')"}},
	{"!and again", "this key is in use by another", []string{
		"INSERT INTO intent (id, kind, key, actor) VALUES ('m3', 'mail', 'M', 'cron')"}},
	// The policy.
	{"!a policy of a number to come", "a policy is put in force", []string{
		event(", machine, version, about, facts", `0, 'y1', 'policy', 'ann', 0, 7, 'policy',
		'{"detail":{"digest":"d","text":""}}'`)}},
	{"!a policy without a text", "a policy is put in force", []string{
		event(", machine, version, about, facts", `0, 'y1', 'policy', 'ann', 0, 1, 'policy',
		'{"detail":{"digest":"d"}}'`)}},
	{"!a policy of a machine", "a policy is put in force", []string{event(", version, about, facts", `0, 'y1', 'policy', 'ann', 1, 'policy',
		'{"detail":{"digest":"d","text":""}}'`)}},
	{"policies", "", []string{event(", machine, version, about, facts", `0, 'y1', 'policy', 'ann', 0, 1, 'policy',
		'{"detail":{"digest":"d","text":""}}'`),
		event(", machine, version, about, facts", `0, 'y2', 'policy', 'ann', 0, 2, 'policy', '{"detail":{"digest":"e","text":""}}'`)}},
	{"!a begin under an older one", "this was begun under an older", []string{
		born("y", "y", "") + ` RETURNING 1`, `!`, strings.Replace(born("y3", "y3", ""),
			`"sender"`, `"policy":1,"sender"`, 1)}},
	{"!another attempt under an older one", "this was begun under an older", []string{born("y4", "y4", ""), moved("y4", refused), "!",
		moved("y4", `state='pending'; attempt=2; verb='begin'; facts='{"policy":1}'`)}},
	{"!not there, by an older one", "what this policy says proves", []string{event(", facts", `2, 'y5', 'look', 'auto',
		'{"read":{"verdict":"not_there","digest":"d"}}'`)}},
	// Redact, forgeries, a ledger that was moved.
	{"!edit history", "the history never changes", []string{"UPDATE ev SET reason='x'"}},
	{"one in doubt", "", []string{born("sd", "sd", ""), moved("sd", "state='uncertain'; unproven=1; "+lost)}},
	{"an outage and a run are told, and others", "", []string{
		fmt.Sprintf(`INSERT INTO outage (id, scope, kinds, pipelines, classes, gap_ms, opened_at, first_at, last_at) VALUES
			('x@1', 'kind:x', '[]', '[]', '[]', 600000, %[1]d, %[1]d, %[1]d), ('x@2', 'kind:x', '[]', '[]', '[]', 60, 9, 9, 9)`, lately),
		event(", about, reason, payload", "0, 'og', 'outage_noted', 'kim', 'outage:x@1', 's failed', '{}'"),
		event(", about, reason, payload", "0, 'oh', 'outage_noted', 'kim', 'outage:x@2', 'd failed', '{}'"),
		event(", about, reason, facts", `0, 'rn', 'run', 'kim', 'run:rn', 's again', '{"detail":{"set":[{"operation":"s"}]}}'`),
		event(", about, reason, facts", `0, 'ro', 'run', 'kim', 'run:ro', 'd again', '{"detail":{"set":[{"operation":"d"}]}}'`)}},
	{"!their text is taken out, and nobody redacted", "the history never changes", []string{
		"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE id='og'"}},
	{"!a run's, too", "the history never changes", []string{"UPDATE ev SET payload=NULL WHERE id='rn'"}},
	{"!by an event that says redact", "the history never changes", []string{
		event(", machine, before, state", of("s")+", 'fr', 'redact', 'kim', 0, 'committed', 'committed'"), "!",
		"UPDATE ev SET payload=NULL WHERE id='rn'"}},
	{"!a machine redacts", "a person redacts what is settled", []string{moved("s", "verb='redact'; payload=NULL")}},
	{"!and its history", "the history never changes", []string{"UPDATE ev SET payload=NULL WHERE op=" + of("s")}},
	{"!what is in doubt is redacted", "a person redacts what is", []string{moved("sd", "verb='redact'; payload=NULL"+person)}},
	{"!redacted to another name", "a person redacts what is", []string{moved("s", "verb='redact'; payload=NULL; name='other'"+person)}},
	{"!redacted to another title", "a person redacts what is", []string{moved("s", "verb='redact'; payload=NULL; title='other'"+person)}},
	{"redact", "", []string{moved("s", "verb='redact'; payload=NULL; name='[redacted hmac:s]'"+person),
		"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE op=" + of("s") + " AND verb <> 'redact'"}},
	{"what outages and runs say of it", "", []string{"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE id IN ('og', 'rn')"}},
	{"!its text put back", "the history never changes", []string{
		"UPDATE ev SET payload='{}' WHERE op=" + of("s") + " AND verb <> 'redact'"}},
	{"!its history told otherwise", "the history never changes", []string{
		"UPDATE ev SET reason='x' WHERE op=" + of("s") + " AND verb <> 'redact'"}},
	{"!signed by another", "the history never changes", []string{
		"UPDATE ev SET actor='x', reason='[redacted]' WHERE op=" + of("s") + " AND verb <> 'redact'"}},
	{"!the history of another", "the history never changes", []string{
		"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE op=" + of("e")}},
	{"!its input again", "what is asked for is said", []string{moved("s", `payload='{"op":{"input":1}}'; verb='note'`+person)}},
	{"!its request, its command, by a note", "what is asked for is said", []string{
		event(", payload", of("s")+`, 'nr', 'note', 'kim', '{"op":{"command":["x"]}}'`), event(", payload", of("s")+
			`, 'nr', 'note', 'kim', '{"op":{"request":{"method":"POST"}}}'`)}},
	{"!what is in flight is redacted", "a person redacts what is", []string{moved("a", "verb='redact'; payload=NULL"+person)}},
	{"!without a reason", "a person redacts what is", []string{
		moved("s", "verb='redact'; payload=NULL; reason=' '; name='[redacted hmac:t]'"+person)}},
	{"!redacted to the name of another, which is gone then", "a person redacts what is", []string{
		strings.Replace(moved("@", "verb='redact'; payload=NULL; name='[redacted hmac:s]'"+person,
			"OR REPLACE"), "id = '@'",
			"seq = (SELECT seq FROM op WHERE kind = 'x' AND state IN ('committed', 'failed') AND conflict = '' AND n = 0 "+
				"AND id <> 's' LIMIT 1)", 1)}},
	{"!what another outage says", "the history never changes", []string{"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE id='oh'"}},
	{"!what another run says", "the history never changes", []string{"UPDATE ev SET payload=NULL, reason='[redacted]' WHERE id='ro'"}},
	{"!the redaction itself", "the history never changes", []string{"UPDATE ev SET reason='[redacted]' WHERE op=" + of("s")}},
	{"!the name once more, in silence", "what an operation is never", []string{"UPDATE op SET name='other' WHERE id='s'"}},
	{"!edit facts under redact", "the history never changes", []string{
		"UPDATE ev SET facts=NULL WHERE op=" + of("s") + " AND verb <> 'redact'"}},
	{"!payload of the ledger emptied", "the history never changes", []string{"UPDATE ev SET payload=NULL WHERE op=0"}},
	{"!forged outcome", "an event is of an operation", []string{event(", outcome", "1, 'z', 'settle', 'x', 'committed'")}},
	{"!forged proof", "an event is of an operation", []string{event(", facts", `1, 'z', 'note', 'x', '{"proof":"refused"}'`)}},
	{"!forged late answer", "an event is of an operation", []string{
		event(", n, facts", `1, 'z', 'note', 'x', 1, '{"late_outcome":"failed"}'`)}},
	{"!forged permission", "an event is of an operation", []string{
		event(", facts", `1, 'z', 'note', 'x', '{"allowed":{"g":{"version":3}}}'`)}},
	{"!forged proof of another attempt", "an event is of an operation", []string{
		event(", facts", `1, 'z', 'note', 'x', '{"attempts":{"1":{"proof":"not_there"}}}'`)}},
	{"!proof taken out", "an event is of an operation", []string{event(", n, facts", `1, 'z', 'note', 'x', 1, '{"gone":["proof"]}'`)}},
	{"!forged attempt", "an event is of an operation", []string{event(", n", `1, 'z', 'note', 'x', 9`)}},
	{"!forged conflict", "an event is of an operation", []string{event(", conflict", "1, 'z', 'late', 'x', 'twice'")}},
	{"!an event of no operation", "an event is of an operation", []string{event("", "99999, 'z', 'note', 'x'")}},
	{"moved ledger", "", []string{"INSERT INTO meta VALUES ('moved_to', 'postgres')"}},
	{"!begin in it", "this ledger was moved: indoubt", []string{born("q", "q", "")}},
	{"!a person begins in it", "this ledger was moved: indoubt", []string{born("q", "q", "machine=0")}},
}
