package ledgertest

import (
	"testing"
	"time"

	"indoubt/ledger"
)

// Attack is a statement that is refused, and a part of what is said.
type Attack struct{ Name, SQL, Says string }

// ArchiveAttacks are statements that the tables of a ledger refuse, after Shelved, and a
// part of what they say. They are the same in every database.
var ArchiveAttacks = []Attack{
	{"settled operation deleted", `DELETE FROM operations WHERE id = 'kept'`, "indoubt archive moves settled ones to a file"},
	{"everything deleted", `DELETE FROM operations`, "never deleted"},
	{"attempt deleted", `DELETE FROM attempts WHERE operation_id = 'kept'`, "attempts are never deleted"},
	{"history deleted", `DELETE FROM events WHERE operation_id = 'kept'`, "the history is never deleted"},
	{"archive told of deleted", `DELETE FROM events WHERE verb = 'archive'`, "the history is never deleted"},
	{"stub with a file that no one read back", stubOf("kept", "state", "digest = ''", "closed_at"), "sealed and not closed"},
	{"stub of a doubt", stubOf("doubt", "'committed'", "digest <> ''", "closed_at"), "nothing waits for"},
	{"stub with another outcome", stubOf("kept", "'failed'", "digest <> ''", "closed_at"), "nothing waits for"},
	{"stub that is forgotten while its key is remembered", stubOf("kept", "state", "digest <> ''", "settled_before"), "is forgotten"},
	{"stub of a stub", `INSERT INTO archived SELECT * FROM archived`, "archived once"},
	{"stub changed", `UPDATE archived SET state = 'failed'`, "a stub never changes"},
	{"stub forgotten", `DELETE FROM archived`, "a stub is remembered"},
	{"attempt of a stub forgotten", `DELETE FROM archived_attempts`, "are remembered as long"},
	{"attempt of a stub changed", `UPDATE archived_attempts SET id = 'n'`, "never change"},
	{"attempt of another", `INSERT INTO archived_attempts (id, seq) VALUES ('kept-a', 1)`, "archived with its operation"},
	{"archive sealed anew", `UPDATE archives SET digest = 'x' WHERE digest <> ''`, "sealed once"},
	{"archive sealed without a word", `UPDATE archives SET digest = 'x' WHERE digest = ''`, "the history says"},
	{"archive forgotten", `DELETE FROM archives`, "never forgotten"},
	{"archive begun sealed", `INSERT INTO archives (id, file, digest, settled_before, actor, created_at, until) SELECT 'n', 'f', 'd', settled_before, actor, created_at, until FROM archives WHERE digest <> ''`, "begun by indoubt"},
	{"archive with a number", `INSERT INTO archives (n, id, file, settled_before, actor, created_at, until) SELECT 7, 'n', 'f', settled_before, actor, created_at, until FROM archives WHERE digest <> ''`, "leave the number out"},
	{"key of an archived operation (I4)", `INSERT INTO operations (id, kind, key, created_at, deadline_at, actor) SELECT 'n', kind, 'shelved-key', created_at, deadline_at, 'eve' FROM operations WHERE id = 'flying'`, "this key was used by an operation that is archived"},
	{"id of an archived operation", `INSERT INTO operations (id, kind, key, created_at, deadline_at, actor) SELECT 'shelved', kind, 'n', created_at, deadline_at, 'eve' FROM operations WHERE id = 'flying'`, "never replaced"},
	{"returned as something else", `INSERT INTO operations (seq, id, kind, key, deadline_at, actor) SELECT a.seq, a.id, a.kind, a.key, o.deadline_at, 'eve' FROM archived a CROSS JOIN operations o WHERE o.id = 'flying'`, "returns as it was"},
}

func stubOf(id, state, file, until string) string {
	return `INSERT INTO archived SELECT o.seq, o.id, o.kind, o.scope, o.key, o.key_live, o.target, ` + state + `, f.n, f.` + until + `, '' FROM operations o CROSS JOIN archives f WHERE o.id = '` + id + `' AND f.` + file
}

// Shelved archives an operation, and has others that are settled, in doubt and in flight. One
// archive is sealed and another one begun.
func Shelved(t testing.TB, s ledger.Store, now time.Time) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"shelved", "kept", "doubt", "flying"} {
		_, err := ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: id + "-c", OperationID: id, AttemptID: id + "-a", Kind: "card.charge", Key: id + "-key", Deadline: time.Hour, Actor: billing})
		ok(err)
		outcome := map[string]ledger.Outcome{"shelved": ledger.OutcomeCommitted, "kept": ledger.OutcomeCommitted, "doubt": ledger.OutcomeUncertain}[id]
		if outcome != "" {
			_, err = ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: id + "-d", AttemptID: id + "-a", Outcome: outcome, Actor: billing})
			ok(err)
		}
	}
	a := ledger.Archive{ID: "sealed", File: "sealed.jsonl.gz", Actor: maya, Before: now.Add(time.Minute), Until: now}
	ok(s.ChangeArchive(ctx, a))
	ops, _, err := s.Archivable(ctx, a.Before, 0, 10)
	ok(err)
	a.Digest, a.Operations = "d", 1
	ok(s.ChangeArchive(ctx, a))
	if n, err := s.Archive(ctx, a.ID, ops[:1]); err != nil || n != 1 {
		t.Fatalf("%d archived of %d: %v", n, len(ops), err)
	}
	ok(s.ChangeArchive(ctx, ledger.Archive{ID: "begun", File: "begun.jsonl.gz", Actor: maya, Before: now, Until: now}))
}
