package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
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

// perform runs an example on a new ledger, just as it stands in the contract.
func perform(t *testing.T, program, source string) (string, *sqlite.Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := need.Get(sqlite.Create(context.Background(), path, sqlite.Options{}))(t)
	t.Cleanup(func() { s.Close() })
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(source)
	cmd.Env = append(os.Environ(), "INDOUBT_LEDGER="+path)
	out, err := cmd.CombinedOutput()
	need.Must(t, err == nil, "%v\n%s", err, out)
	return string(out), s
}

func TestContractInPython(t *testing.T) {
	need.Program(t, "python3")
	out, s := perform(t, "python3", example(t, "python", 0))
	if want := example(t, "output", 0); out != want {
		t.Fatalf("it printed\n%swant\n%s", out, want)
	}
	ctx := context.Background()
	for _, want := range []struct {
		kind, key string
		state     ledger.State
		begin     ledger.BeginAnswer // what the same key is told now
	}{
		{"x.post", "v2.3 is out", ledger.Committed, ledger.AnswerFinished},
		{"mail.send", "welcome ana", ledger.Uncertain, ledger.AnswerInDoubt},
		{"card.charge", "INV-1187", ledger.Failed, ledger.AnswerBegun}, // it was refused, which is a proof
	} {
		rec := need.Get(s.Read(ctx, ledger.Locator{Kind: want.kind, Key: want.key}))(t)
		if o := rec.Operation; o.State != want.state || len(rec.Attempts) != 1 || !o.TokenSent || o.Source.Pipeline != "nightly" {
			t.Fatalf("%s is %s after %d attempts", want.kind, o.State, len(rec.Attempts))
		}
		res, err := ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
			Kind: want.kind, Key: want.key, Sender: "pipeline", Deadline: time.Minute, Actor: ledger.Actor{Name: "nightly", Machine: true}})
		need.Must(t, err == nil && res.Answer == want.begin,
			"%s: begin was told %s (%v), want %s", want.kind, res.Answer, err, want.begin)
	}
	// What came after its deadline can still be said, by naming the attempt.
	doubt := need.Get(s.Read(ctx, ledger.Locator{Kind: "mail.send", Key: "welcome ana"}))(t)
	applied, err := ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: doubt.Operation.ID + ".1",
		Outcome: ledger.OutcomeCommitted, Receipt: "m-9", Actor: ledger.Actor{Name: "nightly", Machine: true}})
	need.Must(t, err == nil && applied.After.State == ledger.Committed,
		"the late answer: %s, %v", applied.After.State, err)
}

func TestContractInTheShell(t *testing.T) {
	need.Program(t, "sh", "sqlite3")
	out, s := perform(t, "sh", example(t, "sh", 1))
	if want := example(t, "output", 1); out != want {
		t.Fatalf("it printed %q, want %q", out, want)
	}
	rec, err := s.Read(context.Background(), ledger.Locator{Kind: "deploy", Key: "web 4.18.3"})
	need.Must(t, err == nil && rec.Operation.State == ledger.Committed && rec.Operation.Target == "web",
		"%+v, %v", rec.Operation, err)
}

func TestContractShowsTheFeed(t *testing.T) {
	need.Program(t, "python3")
	_, s := perform(t, "python3", example(t, "python", 0))
	info := need.Get(s.Info(context.Background()))(t)
	db := need.Get(sql.Open("sqlite", "file:"+info.Path+"?mode=ro"))(t)
	defer db.Close()
	rows := need.Get(db.Query(example(t, "sql", 0)))(t)
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
	}
	if err := rows.Err(); err != nil || n != 6 {
		t.Fatalf("the feed shows %d events (%v), want two for each of three operations", n, err)
	}
}

// TestContractIsComplete fails when the schema has a table, a column or a
// refusal that the contract does not speak of.
func TestContractIsComplete(t *testing.T) {
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
