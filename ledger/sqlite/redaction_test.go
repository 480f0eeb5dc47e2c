package sqlite

import (
	"database/sql"
	"strings"
	"testing"

	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// No text comes back, and none goes but by a redaction.
func TestI8_RedactionGuards(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	ledgertest.Redacted(t, s, s.now(), "")
	refuses(t, rawDB(t, s.path), ledgertest.RedactionAttacks, "", " OR REPLACE")
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
