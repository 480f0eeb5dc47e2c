package postgres

import (
	"fmt"
	"strings"
	"testing"
)

func TestRewrite(t *testing.T) {
	for _, c := range []struct{ from, want string }{
		{`SELECT id FROM operations WHERE key = ? AND scope = ?`, `SELECT id FROM operations WHERE key = $1 AND scope = $2`},
		{`SELECT ?2, ?1, ?, ?2`, `SELECT $1, $2, $3, $1`},
		{`SELECT ?12`, `SELECT $1`},
		{`SELECT '?', "a?", 'it''s ?', ? -- why?` + "\n" + `, ? /* ? */`, `SELECT '?', "a?", 'it''s ?', $1 -- why?` + "\n" + `, $2 /* ? */`},
		{`SELECT 'open ?`, `SELECT 'open ?`},
		{`LIMIT ?+0`, `LIMIT $1`},
		{`LIMIT ?2+0 OFFSET ?`, `LIMIT $1 OFFSET $2`},
		{`FROM operations o INDEXED BY operations_by_key_2 WHERE o.n = 1`, `FROM operations o  WHERE o.n = 1`},
		{"FROM operations\n\tINDEXED BY\n x", "FROM operations\n\t"},
		{`FROM operations o NOT INDEXED WHERE NOT indexed`, `FROM operations o  WHERE NOT indexed`},
		{`'INDEXED BY x'`, `'INDEXED BY x'`},
		{`FROM a CROSS JOIN b ON b.id = a.id`, `FROM a JOIN b ON b.id = a.id`},
		{`FROM a CROSS JOIN b INDEXED BY i ON b.id = a.id`, `FROM a JOIN b  ON b.id = a.id`},
		{`FROM a CROSS JOIN (SELECT 1 FROM c JOIN d ON d.x = c.x) e ON e.id = a.id`, `FROM a JOIN (SELECT 1 FROM c JOIN d ON d.x = c.x) e ON e.id = a.id`},
		{"\n\tINSERT INTO events (id) VALUES (?)", "\n\tINSERT INTO indoubt.events (id) VALUES ($1)"},
		{"UPDATE meta SET value = ? WHERE name IN (SELECT name FROM meta)", "UPDATE indoubt.meta SET value = $1 WHERE name IN (SELECT name FROM meta)"},
		{"DELETE FROM  lead", "DELETE FROM  indoubt.lead"},
		{"SELECT 'UPDATE x'", "SELECT 'UPDATE x'"},
		{`SELECT a+0`, `SELECT a+0`},
	} {
		if got := numbered(c.from).query; got != c.want || numbered(c.from).query != c.want {
			t.Errorf("%s\n is %s\nwant %s", c.from, got, c.want)
		}
	}
	values, err := numbered(`SELECT ?3, ?, ?1, ?3`).bind(&parcel{}, []any{"a", "b", "c", "d"})
	if got := fmt.Sprintf("%s", values); err != nil || got != "[c d a]" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := numbered(`SELECT ?, ?`).bind(&parcel{}, []any{"a"}); err == nil {
		t.Error("a value is missing, and nothing is said")
	}
}

// What writes an operation and what writes its attempt are one statement, and the second
// does nothing where the first found its guess wrong.
func TestStatementsThatAreSentAsOne(t *testing.T) {
	for _, c := range []struct {
		of   written
		want string
	}{
		{written{query: "INSERT INTO operations (id, key) VALUES (?, ?)", tie: "1 / (? = key)::int"},
			"INSERT INTO indoubt.operations (id, key) SELECT $1, $2 WHERE 1 / ($3 = key)::int = 1"},
		{written{query: "INSERT INTO operations (id) VALUES (?)", tie: "now(?)", behind: "INSERT INTO attempts (id, n) VALUES (?, ?)", gives: "1, xmax"},
			"WITH first AS (INSERT INTO indoubt.operations (id) SELECT $1 WHERE now($2) = 1 RETURNING 1) INSERT INTO indoubt.attempts (id, n) SELECT $3, $4 FROM first RETURNING 1, xmax"},
		{written{query: "UPDATE operations SET a = ? WHERE id = ?", tie: "x(?)", behind: "UPDATE attempts SET b = ? WHERE n = ?", behindTie: "y(?)", gives: "?"},
			"WITH first AS (UPDATE indoubt.operations SET a = $1 WHERE id = $2 AND x($3) = 1 RETURNING 1) UPDATE indoubt.attempts SET b = $4 FROM first WHERE n = $5 AND y($6) = 1 RETURNING $7"},
	} {
		if got := c.of.text().query; got != c.want {
			t.Errorf("%+v\n is %s\nwant %s", c.of, got, c.want)
		}
	}
}

func TestFewTextsAreKept(t *testing.T) {
	for i := range 3 * keptTexts {
		numbered("SELECT " + strings.Repeat("x", i%97) + string(rune('a'+i%26)) + strings.Repeat("y", i/97))
	}
	if n := len(rewritten.texts); n > keptTexts {
		t.Fatalf("%d texts are kept", n)
	}
}

// Values share their memory, and none runs into the next: NULL is not an empty text, and
// what is longer than it seemed keeps its own.
func TestBindTellsValuesApart(t *testing.T) {
	long := strings.Repeat("\x00", 50) // becomes four times as long
	got, err := numbered(`SELECT ?, ?, ?, ?, ?, ?, ?2`).bind(&parcel{}, []any{"a", long, nil, "", true, int64(7)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []any{"a", strings.Repeat(`\x00`, 50), nil, "", "true", "7"} {
		if null := got[i] == nil; null != (want == nil) || !null && string(got[i]) != want {
			t.Errorf("value %d: %q, want %v", i+1, got[i], want)
		}
		_ = append(got[i], '!') // which is not the next one's
	}
}
