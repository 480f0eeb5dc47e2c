package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/sqlite"
)

// example is the nth block of the contract in a language.
func example(t *testing.T, language string, n int) string {
	t.Helper()
	return need.Blocks(t, "../README.md", language)[n].Text
}

// plain makes a ledger, and opens it as a writer that knows nothing of indoubt.
func plain(t *testing.T) (*sqlite.Store, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := need.Get(sqlite.Create(context.Background(), path, sqlite.Options{}))(t)
	db := need.Get(sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"))(t)
	t.Cleanup(func() { db.Close(); s.Close() })
	return s, db
}

// TestContractIsComplete: the page has a row for each table, and the file says what each of them,
// and each view, is for.
func TestContractIsComplete(t *testing.T) {
	t.Parallel()
	text := string(need.Get(os.ReadFile("../README.md"))(t))
	_, db := plain(t)
	rows := need.Get(db.Query(`SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'`))(t)
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var name, says string
		need.OK(t, rows.Scan(&name, &says))
		need.That(t, strings.Contains(text, "`"+name+"` ") || strings.Contains(text, "INTO "+name+" "), "the page does not name %s", name)
		need.That(t, strings.Contains(says, " -- "), "the file does not say what %s is for", name)
	}
	need.OK(t, rows.Err())
	need.Equal(t, n, 10, "tables and views")
}

// The two statements and the query of the feed, as the page has them, by Go's database/sql.
func TestContractInGo(t *testing.T) {
	t.Parallel()
	s, db := plain(t)
	for _, statement := range strings.SplitAfter(example(t, "sql", 0), ";\n") {
		need.Get(db.Exec(statement))(t)
	}
	rec := need.Get(s.Read(context.Background(), ledger.Locator{Kind: "mail.send", Key: "welcome ana"}))(t)
	o := rec.Operation
	need.That(t, o.State == ledger.Committed && o.Version == 2 && o.Receipt() == "m-9" && o.Effects == 1 && o.ByAnswer && o.Token == "T-1" && o.TokenSent &&
		o.Target == "ana" && string(o.Input) == `{"to":"ana@example.com"}` && string(o.Result) == `{"id":"m-9"}` && o.Source.Pipeline == "nightly" &&
		!o.SettledAt.IsZero() && o.DeadlineAt.IsZero() && o.LiveAttempt == "", "%+v", o)
	need.Must(t, len(rec.Attempts) == 1, "%d attempts", len(rec.Attempts))
	a := rec.Attempts[0]
	need.That(t, a.ID == "op-1.1" && a.Outcome == ledger.OutcomeCommitted && a.Receipt == "m-9" && !a.EndedAt.IsZero(), "%+v", a)
	rows := need.Get(db.Query(example(t, "sql", 1)))(t)
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
	}
	need.That(t, rows.Err() == nil && n == 2, "the feed shows %d events (%v)", n, rows.Err())
}
