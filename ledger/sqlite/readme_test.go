package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/sqlite"
)

// example is the nth block of the contract in a language.
func example(t *testing.T, language string, n int) string {
	t.Helper()
	return need.Blocks(t, "../README.md", language)[n].Text
}

// TestContractIsComplete: the page has a row for each table, and names each column of what a
// writer writes and a reader reads. What the others hold stands in schema.sql.
func TestContractIsComplete(t *testing.T) {
	t.Parallel()
	text := string(need.Get(os.ReadFile("../README.md"))(t))
	s := need.Get(sqlite.Create(context.Background(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{}))(t)
	defer s.Close()
	info := need.Get(s.Info(context.Background()))(t)
	db := need.Get(sql.Open("sqlite", "file:"+info.Path+"?mode=ro"))(t)
	defer db.Close()
	rows := need.Get(db.Query(`
		SELECT m.name, c.name FROM sqlite_schema m, pragma_table_xinfo(m.name) c
		 WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, c.cid`))(t)
	defer rows.Close()
	for rows.Next() {
		var table, column string
		need.OK(t, rows.Scan(&table, &column))
		need.That(t, regexp.MustCompile("(?m)^\\| (`\\w+` )*`"+table+"` ").MatchString(text), "it has no row for the table %s", table)
		if _, section, has := strings.Cut(text, "\n### "+table+"\n"); has {
			section, _, _ = strings.Cut(section, "\n### ")
			need.That(t, strings.Contains(section, " `"+column+"` "), "it does not name %s.%s", table, column)
		}
	}
	need.OK(t, rows.Err())
	need.That(t, strings.Contains(text, "\n### operations\n") && strings.Contains(text, "\n### events\n"), "a table that is written or read by others has no section")
}

// The query that the page shows gives two events of each of three operations.
func TestContractShowsTheFeed(t *testing.T) {
	t.Parallel()
	ctx, actor := context.Background(), ledger.Actor{Name: "nightly", Machine: true}
	s := need.Get(sqlite.Create(ctx, filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{}))(t)
	defer s.Close()
	for range 3 {
		res := need.Get(ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "mail.send", Key: ledger.NewID(),
			Sender: "pipeline", Deadline: time.Minute, Actor: actor}))(t)
		need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: actor}))(t)
	}
	db := need.Get(sql.Open("sqlite", "file:"+need.Get(s.Info(ctx))(t).Path+"?mode=ro"))(t)
	defer db.Close()
	rows := need.Get(db.Query(example(t, "sql", 0)))(t)
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
	}
	need.That(t, rows.Err() == nil && n == 6, "the feed shows %d events (%v)", n, rows.Err())
}
