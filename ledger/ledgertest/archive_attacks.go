package ledgertest

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Attack is a statement that is refused, and a part of what is said. It has no name of its
// own, so that the tests of a store can list theirs a line each.
type Attack = struct{ Name, SQL, Says string }

// ArchiveAttacks are statements that the tables of a ledger refuse, after Shelved, and a
// part of what they say. They are the same in every database.
var ArchiveAttacks = []Attack{
	{"settled operation deleted", `DELETE FROM operations WHERE id = 'kept'`, "indoubt archive moves settled ones to a file"},
	{"everything deleted", `DELETE FROM operations`, "never deleted"},
	{"attempt deleted", `DELETE FROM attempts WHERE operation_id = 'kept'`, "attempts are never deleted"},
	{"history deleted", `DELETE FROM events WHERE operation_id = 'kept'`, "the history is never deleted"},
	{"archive told of deleted", `DELETE FROM events WHERE verb = 'archive'`, "the history is never deleted"},
	{"sheaf with a file that no one read back", `INSERT INTO sheaves (n, archive, until, low, high, first, last, rest) SELECT 99, n, closed_at, 1, 9, '', '', '' FROM archives WHERE digest = ''`, "sealed and not closed"},
	{"stub without a sheaf", `INSERT INTO archived SELECT seq, id, kind, scope, key, key_live, target, state, 99 FROM operations WHERE id = 'kept'`, "sealed and not closed"},
	{"stub of a doubt", stubOf("doubt", "'committed'", "min"), "nothing waits for"},
	{"stub with another outcome", stubOf("kept", "'failed'", "min"), "nothing waits for"},
	{"stub that is forgotten while its key is remembered", stubOf("kept", "state", "max"), "is forgotten"},
	{"stub of a stub", `INSERT INTO archived SELECT * FROM archived`, "archived"},
	{"stub changed", `UPDATE archived SET state = 'failed'`, "a stub never changes"},
	{"stub forgotten", `DELETE FROM archived`, "a stub is remembered"},
	{"sheaf changed", `UPDATE sheaves SET rest = ''`, "a sheaf never changes"},
	{"sheaf forgotten", `DELETE FROM sheaves`, "a sheaf is remembered"},
	{"archive sealed anew", `UPDATE archives SET digest = 'x' WHERE digest <> ''`, "sealed once"},
	{"archive sealed anew with another number", `UPDATE archives SET operations = 1 WHERE digest <> ''`, "sealed once"},
	{"archive sealed with a size that is not told of", `UPDATE archives SET size = 8 WHERE id = 'redacted'`, "sealed once"},
	{"archive sealed as it was before a redaction", `UPDATE archives SET digest = 'd', size = 0 WHERE id = 'redacted'`, "sealed once"},
	{"archive sealed as it was after a redaction", `UPDATE archives SET digest = 'd2', size = 7 WHERE id = 'redacted'`, "sealed once"},
	{"archive sealed without a word", `UPDATE archives SET digest = 'x' WHERE digest = ''`, "the history says"},
	{"archive forgotten", `DELETE FROM archives`, "never forgotten"},
	{"archive begun sealed", `INSERT INTO archives (id, file, digest, settled_before, actor, created_at, until) SELECT 'n', 'f', 'd', settled_before, actor, created_at, until FROM archives WHERE digest <> ''`, "begun by indoubt"},
	{"archive with a number", `INSERT INTO archives (n, id, file, settled_before, actor, created_at, until) SELECT 7, 'n', 'f', settled_before, actor, created_at, until FROM archives WHERE digest <> ''`, "leave the number out"},
	{"key of an archived operation (I4)", `INSERT INTO operations (id, kind, key, created_at, deadline_at, actor) SELECT 'n', kind, 'shelved-key', created_at, deadline_at, 'eve' FROM operations WHERE id = 'flying'`, "this key was used by an operation that is archived"},
	{"id of an archived operation", `INSERT INTO operations (id, kind, key, created_at, deadline_at, actor) SELECT 'shelved', kind, 'n', created_at, deadline_at, 'eve' FROM operations WHERE id = 'flying'`, "never replaced"},
	{"returned as something else", `INSERT INTO operations (seq, id, kind, key, deadline_at, actor) SELECT a.seq, a.id, a.kind, a.key, o.deadline_at, 'eve' FROM archived a CROSS JOIN operations o WHERE o.id = 'flying'`, "returns as it was"},
}

// stubOf makes a stub with the first sheaf, of those that are remembered, or the last, of those that are forgotten.
func stubOf(id, state, which string) string {
	return `INSERT INTO archived SELECT seq, id, kind, scope, key, key_live, target, ` + state + `, (SELECT ` + which + `(n) FROM sheaves) FROM operations WHERE id = '` + id + `'`
}

// Shelved archives operations, of which some are forgotten in time, and has others that are settled, in doubt and in flight. One
// archive is sealed and another one begun.
func Shelved(t testing.TB, s ledger.Store, now time.Time) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		need.OK(t, err)
	}
	for _, id := range []string{"shelved", "short", "kept", "doubt", "shelved too", "short too", "flying"} {
		req := ledger.BeginRequest{ChangeID: id + "-c", OperationID: id, AttemptID: id + "-a", Kind: "card.charge", Key: id + "-key", Deadline: time.Hour, Actor: billing}
		if strings.HasPrefix(id, "short") {
			req.TTL = time.Hour
		}
		_, err := ledger.Begin(ctx, s, req)
		ok(err)
		outcome := map[string]ledger.Outcome{"doubt": ledger.OutcomeUncertain}[id]
		if outcome = cmp.Or(outcome, ledger.OutcomeCommitted); id != "flying" {
			_, err = ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: id + "-d", AttemptID: id + "-a", Outcome: outcome, Actor: billing})
			ok(err)
		}
	}
	a := ledger.Archive{ID: "sealed", File: "sealed.jsonl.gz", Actor: maya, Before: now.Add(time.Minute), Until: now}
	ok(s.ChangeArchive(ctx, a))
	ops, _, err := s.Archivable(ctx, a.Before, 0, 10)
	ok(err)
	ops = slices.DeleteFunc(ops, func(w ledger.Whole) bool { return w.Operation.ID == "kept" })
	a.Digest, a.Operations = "d", len(ops)
	ok(s.ChangeArchive(ctx, a))
	if n, _, err := s.Archive(ctx, a.ID, ops); err != nil || n != 4 {
		t.Fatalf("%d archived of %d: %v", n, len(ops), err)
	}
	other := a
	other.ID, other.File, other.Digest = "redacted", "redacted.jsonl.gz", ""
	ok(s.ChangeArchive(ctx, other))
	other.Digest = "d"
	ok(s.ChangeArchive(ctx, other))
	ok(s.Reseal(ctx, ledger.Resealing{ID: other.ID, Was: "d", Digest: "d2", Size: 7, Actor: maya, Reason: "request 7"}))
	ok(s.Reseal(ctx, ledger.Resealing{ID: other.ID, Was: "d2", Digest: "d3", Size: 9, Actor: maya, Reason: "request 8"}))
	ok(s.ChangeArchive(ctx, ledger.Archive{ID: "begun", File: "begun.jsonl.gz", Actor: maya, Before: now, Until: now}))
}
