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

// readme is the public contract for writers in other languages.
func readme(t *testing.T) string {
	t.Helper()
	b := need.Get(os.ReadFile("../README.md"))(t)
	return string(b)
}

// example is the nth block of the contract in a language.
func example(t *testing.T, language string, n int) string {
	t.Helper()
	return need.Blocks(t, "../README.md", language)[n].Text
}

// TestContractIsComplete fails when the schema has a table, a column or a
// refusal that the contract does not speak of.
func TestContractIsComplete(t *testing.T) {
	t.Parallel()
	var schema []byte
	for _, name := range []string{"guards.sql", "derived.sql"} {
		text := need.Get(os.ReadFile(name))(t)
		schema = append(schema, text...)
	}
	text := readme(t)
	for _, m := range regexp.MustCompile(`RAISE\(ABORT, '(.*)'\)`).FindAllStringSubmatch(string(schema), -1) {
		need.That(t, strings.Contains(text, "- "+m[1]+"\n"), "it does not name the refusal %q", m[1])
	}
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
		section := regexp.MustCompile(`(?s)### ` + table + `\n(.*?)(\n### |$)`).FindString(text)
		need.That(t, strings.Contains(section, "| `"+column+"` | "), "it does not speak of %s.%s", table, column)
	}
	need.OK(t, rows.Err())
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
