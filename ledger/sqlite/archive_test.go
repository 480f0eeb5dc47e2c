package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// Nothing leaves the ledger by plain SQL that leaves no stub, and no stub goes.
func TestArchiveGuards(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	ledgertest.Shelved(t, s, s.now())
	resists(t, s, ledgertest.ArchiveAttacks)
	need.OK(t, s.Rebuild(ctx))
	if d := need.Get(s.Deviations(ctx))(t); len(d) != 0 {
		t.Errorf("after it was made anew: %+v", d)
	}
	need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: "shelved-a", Outcome: ledger.OutcomeCommitted, Receipt: "another", Actor: ledger.Actor{Name: "x"}}))(t)
	if d := need.Get(s.Deviations(ctx))(t); len(d) != 0 {
		t.Errorf("after one returned: %+v", d)
	}
	if rec := need.Get(s.Read(ctx, ledger.Locator{ID: "shelved"}))(t); rec.Operation.Conflict == "" {
		t.Errorf("%+v", rec.Operation)
	}
}

// I4: a stub is not forgotten while something may be asked of it, though its key was given up.
func TestI4_AStubIsNotForgottenInTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := need.Get(Create(ctx, path, Options{}))(t)
	t.Cleanup(func() { s.Close() })
	ledgertest.Shelved(t, s, time.Now())
	db := rawDB(t, path)
	need.Get(db.Exec(`UPDATE archived SET key_live = 0 WHERE id = 'short'`))(t)
	refuses(t, db, []ledgertest.Attack{{Name: "a stub forgotten in time", SQL: `DELETE FROM archived WHERE id = 'short'`, Says: "a stub is remembered until"}}, "")
}

// No text comes back, and none goes but by a redaction.
func TestI8_RedactionGuards(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	ledgertest.Redacted(t, s, s.now(), "")
	resists(t, s, ledgertest.RedactionAttacks)
}

// resists makes statements that the ledger refuses.
func resists(t *testing.T, s *Store, attacks []ledgertest.Attack) {
	t.Helper()
	refuses(t, rawDB(t, s.path), attacks, "", " OR REPLACE")
	if d := need.Get(s.Deviations(ctx))(t); len(d) != 0 {
		t.Errorf("%+v", d)
	}
}

// refuses makes each statement in these ways: as it stands, or with OR REPLACE.
func refuses(t *testing.T, db *sql.DB, attacks []ledgertest.Attack, ways ...string) {
	t.Helper()
	for _, a := range attacks {
		for _, how := range ways {
			query := a.SQL
			if how != "" && !strings.HasPrefix(query, "DELETE") {
				query = strings.Replace(strings.Replace(query, "INSERT INTO", "INSERT OR REPLACE INTO", 1), "UPDATE ", "UPDATE OR REPLACE ", 1)
			}
			if _, err := db.Exec(query); err == nil || !strings.Contains(err.Error(), a.Says) {
				t.Errorf("%s%s: %v, want %q", a.Name, how, err, a.Says)
			}
		}
	}
}

// However long the texts are, no more is read at once than there is room for, and nothing is
// passed over.
func TestArchivableIsBounded(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	text := json.RawMessage(`{"text":"` + strings.Repeat("x", 3<<20) + `"}`)
	const all = 12
	for i := range all + 1 {
		res := need.Get(ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: fmt.Sprintf("o%03d", i), AttemptID: ledger.NewID(), Kind: "k", Key: fmt.Sprint(i),
			Input: text, Deadline: time.Minute, Actor: ledger.Actor{Name: "x"}}))(t)
		need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: ledger.Actor{Name: "x"}}))(t)
	}
	var seen []string
	for place := int64(0); ; {
		ops, next, err := s.Archivable(ctx, s.now().Add(time.Hour), place, 2000)
		need.OK(t, err)
		bytes := 0
		for _, w := range ops {
			seen, bytes = append(seen, w.Operation.ID), bytes+len(w.Operation.Input)
		}
		need.That(t, bytes < 40<<20, "%d operations with %d bytes were read at once", len(ops), bytes)
		if place = next; place == 0 {
			break
		}
	}
	need.That(t, len(seen) == all && seen[0] == "o000" && seen[all-1] == fmt.Sprintf("o%03d", all-1), "%d were read: %v", len(seen), seen)
}
