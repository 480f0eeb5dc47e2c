package connect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

func sqliteWith(t *testing.T, statements ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "orders?#.db")
	f := sqliteFile{path}
	need.OK(t, os.WriteFile(path, nil, 0o600))
	conn, done, err := f.connect(t.Context(), "rw", "journal_mode(WAL)")
	need.OK(t, err)
	t.Cleanup(done)
	for _, s := range statements {
		_, err := conn.ExecContext(t.Context(), s)
		need.Must(t, err == nil, "%s: %v", s, err)
	}
	return path
}

func count(t *testing.T, path, query string) string {
	t.Helper()
	s := &SQL{}
	defer s.Close()
	a := s.Read(t.Context(), transport.SQLRequest{Driver: "sqlite", DSN: path, Query: query})
	need.OK(t, a.Err)
	return string(a.Rows)
}

func TestSQLiteReadGivesValuesAsJSON(t *testing.T) {
	path := sqliteWith(t, `CREATE TABLE o (id INTEGER PRIMARY KEY, token TEXT, amount NUMERIC, at TIMESTAMP, raw BLOB, f REAL)`,
		`INSERT INTO o VALUES (9007199254740993, 't<&1', 12, '2026-01-02 03:04:05.25', x'ff00fe', 1e300), (2, NULL, 1.5, NULL, x'6f6b', -0.25)`)
	s := &SQL{}
	defer s.Close()
	q := transport.SQLRequest{Driver: "sqlite", DSN: path, Query: "SELECT * FROM o WHERE token = ? OR id = ? ORDER BY id DESC", Args: []any{"t<&1", int64(2)}}
	a := s.Read(t.Context(), q)
	want := `[{"id":9007199254740993,"token":"t<&1","amount":12,"at":"2026-01-02T03:04:05.25Z","raw":"/wD+","f":1e+300},` +
		`{"id":2,"token":null,"amount":1.5,"at":null,"raw":"ok","f":-0.25}]`
	if a.Err != nil || string(a.Rows) != want || a.Truncated || a.Via != "sql" || a.Header != nil || a.EndedAt.Before(a.BeganAt) {
		t.Errorf("%v\n got %s\nwant %s", a.Err, a.Rows, want)
	}
	q.Args = []any{"nobody's", nil}
	if a := s.Read(t.Context(), q); string(a.Rows) != "[]" || a.Err != nil {
		t.Errorf("none: %s %v", a.Rows, a.Err)
	}
}

func TestSQLiteReadChangesNothing(t *testing.T) {
	path := sqliteWith(t, `CREATE TABLE o (id INTEGER PRIMARY KEY)`, `INSERT INTO o VALUES (1)`)
	s := &SQL{}
	defer s.Close()
	for _, query := range []string{
		"DELETE FROM o", "INSERT INTO o VALUES (2) RETURNING id", "WITH x AS (SELECT 1) INSERT INTO o SELECT 3",
		"PRAGMA query_only = 0; DELETE FROM o",
	} {
		a := s.Read(t.Context(), transport.SQLRequest{Driver: "sqlite", DSN: path, Query: query})
		need.That(t, a.Err != nil, "%q was run: %s", query, a.Rows)
	}
	need.Equal(t, count(t, path, "SELECT count(*) AS n, ';' AS s /* ; */ FROM o;  -- ; done"), `[{"n":1,"s":";"}]`, "left")
	missing := filepath.Join(t.TempDir(), "missing.db")
	a := s.Read(t.Context(), transport.SQLRequest{Driver: "sqlite", DSN: missing, Query: "SELECT 1 AS one"})
	need.That(t, a.Err != nil, "a database that is not there gave an answer")
	_, err := os.Stat(missing)
	need.That(t, err != nil, "the read made the file")
}

func TestReadIsBounded(t *testing.T) {
	path := sqliteWith(t, `CREATE TABLE o AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n < 1001) SELECT n, 'xxxxxxxxxx' AS s FROM c`)
	s := &SQL{}
	defer s.Close()
	base := transport.SQLRequest{Driver: "sqlite", DSN: path, Query: "SELECT n FROM o ORDER BY n"}
	for name, tc := range map[string]struct {
		change func(q *transport.SQLRequest)
		check  func(a ledger.Answer) bool
	}{
		"exactly the limit": {func(q *transport.SQLRequest) { q.Query = "SELECT n FROM o WHERE n <= 1000 ORDER BY n" }, func(a ledger.Answer) bool {
			return !a.Truncated && a.Err == nil && strings.HasSuffix(string(a.Rows), `{"n":1000}]`)
		}},
		"one row too many": {func(*transport.SQLRequest) {}, func(a ledger.Answer) bool {
			return a.Truncated && a.Err == nil && strings.HasSuffix(string(a.Rows), `{"n":1000}]`)
		}},
		"too long": {func(q *transport.SQLRequest) { q.Max = 100 }, func(a ledger.Answer) bool { return a.Truncated && a.Err == nil && len(a.Rows) <= 100 }},
		"one huge value": {func(q *transport.SQLRequest) { q.Query = "SELECT zeroblob(200000000) AS b" },
			func(a ledger.Answer) bool { return a.Truncated }},
		"endless": {func(q *transport.SQLRequest) {
			q.Query, q.Timeout = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c) SELECT max(n) AS n FROM c", 50*time.Millisecond
		}, func(a ledger.Answer) bool {
			return a.Class == ledger.ClassTimeout
		}},
		"two columns of one name": {func(q *transport.SQLRequest) { q.Query = "SELECT n, s AS n FROM o" }, func(a ledger.Answer) bool { return a.Err != nil }},
		"unknown driver":          {func(q *transport.SQLRequest) { q.Driver = "oracle" }, func(a ledger.Answer) bool { return a.Err != nil && !a.Sent }},
	} {
		t.Run(name, func(t *testing.T) {
			q := base
			tc.change(&q)
			a := s.Read(t.Context(), q)
			need.That(t, tc.check(a), "truncated=%v class=%q err=%v %d bytes of rows", a.Truncated, a.Class, a.Err, len(a.Rows))
		})
	}
}

func TestSQLiteReadSeesTheFileThatIsThereNow(t *testing.T) {
	path := sqliteWith(t, `CREATE TABLE o (n)`, `INSERT INTO o VALUES (1)`)
	restored := sqliteWith(t, `CREATE TABLE o (n)`, `INSERT INTO o VALUES (2)`, `PRAGMA wal_checkpoint(TRUNCATE)`)
	s := &SQL{}
	defer s.Close()
	q := transport.SQLRequest{Driver: "sqlite", DSN: path, Query: "SELECT n FROM o"}
	a := s.Read(t.Context(), q)
	need.Must(t, string(a.Rows) == `[{"n":1}]`, "%s %v", a.Rows, a.Err)
	for _, tail := range []string{"-wal", "-shm"} {
		_ = os.Remove(path + tail)
	}
	need.OK(t, os.Rename(restored, path))
	a = s.Read(t.Context(), q)
	need.That(t, string(a.Rows) == `[{"n":2}]`, "%s %v", a.Rows, a.Err)
}

func TestSecretsOfADatabaseAreNotShown(t *testing.T) {
	s := &SQL{}
	defer s.Close()
	for driver, dsns := range map[string][]string{
		"postgres": {"postgres://me:hunter42@127.0.0.1:1/x?connect_timeout=1", "host=127.0.0.1 port=1 user=me password=hunter42", "postgres://me:hunter42@[::1", "host=x password='hunter42"},
	} {
		for _, dsn := range dsns {
			a := s.Read(t.Context(), transport.SQLRequest{Driver: driver, DSN: dsn, Query: "SELECT 1", Limits: transport.Limits{Timeout: 2 * time.Second}})
			need.That(t, a.Err != nil && !strings.Contains(a.Err.Error(), "hunter42"), "%s %s: %v", driver, dsn, a.Err)
		}
	}
	_, err := (&SQL{closed: true}).database(transport.SQLRequest{})
	need.That(t, err != nil, "a closed SQL opened a database")
}
