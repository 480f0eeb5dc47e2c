package ledgertest

// Attack is a statement that is refused, and a part of what is said. It has no name of its
// own, so that the tests of a store can list theirs a line each.
type Attack = struct{ Name, SQL, Says string }

const change = `, change_id = 'x', actor = 'eve', reason = 'why'`

// GuardAttacks are statements that the tables of a ledger refuse, after a store's test has
// made one operation for each state that the guards speak of, and a part of what they say.
// They are the same in every database; each store has those beside them that only its own
// SQL can say.
var GuardAttacks = []Attack{
	{"settled operation deleted", `DELETE FROM operations WHERE id = 'committed'`, "never deleted"},
	{"everything deleted", `DELETE FROM operations`, "never deleted"},
	{"attempt deleted", `DELETE FROM attempts WHERE operation_id = 'committed'`, "attempts are never deleted"},
	{"history deleted", `DELETE FROM events WHERE operation_id = 'committed'`, "the history is never deleted"},
	{"another id", `UPDATE operations SET id = 'n' WHERE id = 'pending'`, "never change"},
	{"another key (I4)", `UPDATE operations SET key = 'n' WHERE id = 'pending'`, "never change"},
	{"begun by a decision (I8)", `INSERT INTO operations (id, kind, key, deadline_at, actor, change_verb) SELECT 'n', 'n', 'n', deadline_at, 'ann', 'adopt' FROM operations WHERE id = 'pending'`, "begins as pending"},
	{"another token (I4)", `UPDATE operations SET token = 'n' WHERE id = 'pending'`, "never change"},
	{"another kind", `UPDATE operations SET kind = 'n' WHERE id = 'pending'`, "never change"},
	{"key taken back", `UPDATE operations SET key_live = true WHERE id = 'retired'`, "given up once"},
	{"unknown state", `UPDATE operations SET state = 'done'` + change + ` WHERE id = 'pending'`, "cannot change like this"},
	{"committed to failed", `UPDATE operations SET state = 'failed'` + change + ` WHERE id = 'committed'`, "cannot change like this"},
	{"committed to pending", `UPDATE operations SET state = 'pending'` + change + ` WHERE id = 'committed'`, "cannot change like this"},
	{"pending to abandoned", `UPDATE operations SET state = 'abandoned'` + change + ` WHERE id = 'pending'`, "cannot change like this"},
	{"abandoned as something else", `UPDATE operations SET fact = 'failed' WHERE id = 'uncertain'`, "what is known of an abandoned"},
	{"failed to committed", `UPDATE operations SET state = 'committed'` + change + ` WHERE id = 'failed'`, "cannot change like this"},
	{"no change id (I8)", `UPDATE operations SET state = 'committed', actor = 'eve', reason = 'why' WHERE id = 'pending'`, "new change_id"},
	{"no reason (I8)", `UPDATE operations SET state = 'committed', change_id = 'x', actor = 'eve', reason = ' ' WHERE id = 'pending'`, "new change_id"},
	{"old change id (I8)", `UPDATE operations SET state = 'committed', change_id = 'committed-c', actor = 'eve', reason = 'why' WHERE id = 'pending'`, "in the history already"},
	{"version back (I7)", `UPDATE operations SET version = 1 WHERE id = 'uncertain'`, "never goes back"},
	{"verdict without version (I7)", `UPDATE operations SET verdict = 'not_there' WHERE id = 'uncertain'`, "version must grow"},
	{"conflict without version (I7)", `UPDATE operations SET conflict = 'different' WHERE id = 'uncertain'`, "version must grow"},
	{"verdict without a word (I8)", `UPDATE operations SET verdict = 'not_there', version = version + 1 WHERE id = 'uncertain'`, "is in the history"},
	{"conflict without a word (I8)", `UPDATE operations SET conflict = 'different', version = version + 1 WHERE id = 'uncertain'`, "is in the history"},
	{"automation again where a person is needed (I12)", `UPDATE operations SET hands_off = (1 = 0), version = version + 1, change_id = 'n', change_of = 'n', change_verb = 'note', reason = 'x' WHERE id = 'committed'`, "hands_off is never taken back"},
	{"retry without an attempt (I3)", `UPDATE operations SET state = 'pending'` + change + ` WHERE id = 'uncertain'`, "another attempt needs"},
	{"waiting without an attempt in flight", `UPDATE operations SET awaits = 'task:1', change_id = 'x', actor = 'eve', reason = 'why' WHERE id = 'uncertain'`, "only an operation in flight waits"},
	{"waiting without saying so (I8)", `UPDATE operations SET awaits = 'task:1' WHERE id = 'pending'`, "only an operation in flight waits"},
	{"waiting without a reason (I8)", `UPDATE operations SET awaits = 'task:1', change_id = 'x', reason = '' WHERE id = 'pending'`, "only an operation in flight waits"},
	{"waiting after the end", `UPDATE operations SET state = 'uncertain', awaits = 'task:1'` + change + ` WHERE id = 'pending'`, "only an operation in flight waits"},
	{"taken back delivery", `UPDATE operations SET undelivered = true WHERE id = 'committed'`, "stays delivered"},
	{"taken back delivery in flight", `UPDATE operations SET undelivered = true WHERE id = 'pending'`, "stays delivered"},
	{"key given up in doubt", `UPDATE operations SET key_live = false WHERE id = 'uncertain'`, "given up once"},
	{"negative effects", `UPDATE operations SET effects = -1, version = version + 1 WHERE id = 'uncertain'`, "effects_count"},
	{"deleted operation", `DELETE FROM operations WHERE id = 'pending'`, "never deleted"},

	{"ended attempt", `UPDATE attempts SET outcome = 'failed' WHERE id = 'committed.1'`, "does not change"},
	{"ended attempt's receipt", `UPDATE attempts SET receipt = 'n' WHERE id = 'committed.1'`, "does not change"},
	{"proof without a read", `UPDATE attempts SET proof = 'refused' WHERE id = 'uncertain.1'`, "does not change"},
	{"attempt moved", `UPDATE attempts SET operation_id = 'committed' WHERE id = 'pending.1'`, "never change"},
	{"absence while a process may write (I6)", `UPDATE attempts SET proof = 'not_there' WHERE id = 'left.1'`, "may still write"},
	{"a tree that is gone comes back", `UPDATE attempts SET tree = 'open' WHERE id = 'uncertain.1'`, "seen gone once"},
	{"a tree that is forgotten", `UPDATE attempts SET tree = '' WHERE id = 'left.1'`, "seen gone once"},
	{"a tree that is gone at no time", `UPDATE attempts SET tree = 'empty' WHERE id = 'left.1'`, "seen_empty_at_a_time"},
	{"processes elsewhere", `UPDATE attempts SET boot_id = 'other' WHERE id = 'left.1'`, "where the processes"},
	{"processes of another account", `UPDATE attempts SET uid = 8 WHERE id = 'left.1'`, "where the processes"},
	{"deleted attempt", `DELETE FROM attempts`, "never deleted"},

	{"changed read", `UPDATE reads SET verdict = 'landed'`, "never changes"},
	{"deleted read", `DELETE FROM reads`, "never deleted"},
	{"later grant", `UPDATE grants SET version = version + 1`, "never changes"},
	{"expired grant", `UPDATE grants SET consumed_at = expires_at, attempt_id = 'n' WHERE id = 'grant'`, "has expired"},
	{"deleted grant", `DELETE FROM grants`, "never deleted"},
	{"changed event (I8)", `UPDATE events SET actor = 'eve'`, "never changes"},
	{"deleted event (I8)", `DELETE FROM events WHERE seq = 1`, "never deleted"},
	{"replaced event (I8)", `INSERT INTO events (seq, id, verb, actor) VALUES (1, 'n', 'note', 'eve')`, "leave the number out"},
	{"second hold", `INSERT INTO holds (scope, actor, reason) VALUES ('all', 'eve', 'why')`, "a hold on this scope"},
	{"hold without a reason", `INSERT INTO holds (scope, actor, reason) VALUES ('kind:x', 'eve', ' ')`, "hold_says_who_and_why"},
	{"hold on nothing", `INSERT INTO holds (scope, actor, reason) VALUES ('x', 'eve', 'why')`, "hold_scope_is_known"},
	{"changed hold", `UPDATE holds SET reason = 'other'`, "never changes otherwise"},
	{"deleted hold", `DELETE FROM holds`, "never deleted"},
	{"changed run (I8)", `UPDATE events SET detail = '{}' WHERE verb = 'run'`, "never changes"},
	{"changed run's text (I8)", `UPDATE events SET reason = '[redacted]' WHERE verb = 'run'`, "never changes"},
	{"row that came twice (I8)", `INSERT INTO events (id, operation_id, run, verb, actor) SELECT id, operation_id, run, verb, 'eve' FROM events WHERE verb = 'left_out'`, "in the history already"},
	{"row that came to something else (I8)", `UPDATE events SET detail = '{"came":"landed"}' WHERE verb = 'left_out'`, "never changes"},
	{"run signed as the machine", `INSERT INTO events (id, run, verb, actor) VALUES ('n', 'n', 'run', 'checks')`, "names of indoubt"},
	{"change signed as the machine", `UPDATE operations SET state = 'committed', change_id = 'x', actor = 'clock', reason = 'why' WHERE id = 'pending'`, "names of indoubt"},
	{"change signed by leaving the machine's name", `UPDATE operations SET state = 'committed', change_id = 'x', reason = 'why' WHERE id = 'overdue'`, "names of indoubt"},
	{"signed as the machine without a change", `UPDATE operations SET actor = 'clock' WHERE id = 'pending'`, "names of indoubt"},
	{"event signed as the machine", `INSERT INTO events (id, verb, actor) VALUES ('n', 'note', 'checks')`, "names of indoubt"},
	{"hold signed as the machine", `INSERT INTO holds (scope, actor, reason) VALUES ('kind:x', 'checks', 'why')`, "names of indoubt"},

	{"send allowed by a machine (I5)", `UPDATE operations SET
		change_id = 'x', change_of = 'x', change_verb = 'grant', machine = true, actor = 'eve' WHERE id = 'uncertain'`, "by no machine"},
	{"retry by a machine (I5)", `UPDATE operations SET
		change_id = 'x', change_of = 'x', change_verb = 'retry', machine = true, actor = 'eve' WHERE id = 'uncertain'`, "by no machine"},

	{"another attempt under a hold", `UPDATE operations SET state = 'pending', live_attempt = 'n', attempt_count = 2, version = version + 1,
		change_id = 'x', change_of = 'x', change_verb = 'begin', actor = 'eve', reason = 'why' WHERE id = 'failed'`, "a hold stops"},

	{"event with a number", `INSERT INTO events (seq, id, verb, actor) VALUES (9223372036854775807, 'n', 'note', 'eve')`, "leave the number out"},
	{"grant with another number", `UPDATE grants SET rowid = 7`, "never changes"},
	{"hold with a number", `INSERT INTO holds (id, scope, actor, reason) VALUES (7, 'kind:x', 'eve', 'why')`, "leave the number out"},
	{"version far ahead", `UPDATE operations SET version = 9223372036854775807 WHERE id = 'uncertain'`, "grows by one"},

	{"attempts miscounted", `UPDATE operations SET attempt_count = 7, version = version + 1 WHERE id = 'pending'`, "attempts are counted"},
	{"another attempt named", `UPDATE operations SET live_attempt = 'n', version = version + 1 WHERE id = 'pending'`, "attempts are counted"},
	{"no attempt named", `UPDATE operations SET live_attempt = '', version = version + 1 WHERE id = 'pending'`, "attempts are counted"},
	{"an attempt of what is settled", `UPDATE operations SET live_attempt = 'n', version = version + 1 WHERE id = 'committed'`, "attempts are counted"},
	{"proof in flight", `UPDATE attempts SET proof = 'refused' WHERE id = 'pending.1'`, "in flight has no outcome"},
	{"doubt forgotten", `UPDATE operations SET doubted = false WHERE id = 'uncertain'`, "what was in doubt"},
	{"forged history (I8)", `INSERT INTO events (id, operation_id, verb, actor, from_state, to_state) VALUES ('n', 'uncertain', 'confirm', 'ann', 'uncertain', 'committed')`, "because the operation changes"},
	{
		"a policy of a number to come",
		`INSERT INTO events (id, verb, actor, version, detail) VALUES ('n', 'policy', 'ann', 7, '{"digest":"d","files":[]}')`,
		"the next number",
	},
	{
		"a policy without a text",
		`INSERT INTO events (id, verb, actor, version, detail) VALUES ('n', 'policy', 'ann', 1, '{"digest":"d"}')`,
		"its digest and files",
	},
	{"forged end of a doubt (I8)", `INSERT INTO events (id, operation_id, verb, actor, doubt) VALUES ('n', 'uncertain', 'read', 'ann', 'timeout')`, "because the operation changes"},

	{"list row taken out", `DELETE FROM open_operations WHERE error_class = 'timeout'`, "kept by the database"},
	{"list taken out", `DELETE FROM open_operations`, "kept by the database"},
	{"list row changed", `UPDATE open_operations SET state = 'committed'`, "kept by the database"},
	{"list row that is not found by its words", `UPDATE open_operations SET search = ''`, "kept by the database"},
	{"list row that cannot be read", `UPDATE open_operations SET miss_guess = -1`, "list_flags_are_0_or_1"},
	{"list row in seconds", `UPDATE open_operations SET decide_at = 1790000000`, "list_times_are_in_milliseconds"},
}
