//go:build soak && unix

package connect

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// mysqlInstance starts MariaDB or MySQL where one is installed.
func mysqlInstance(t *testing.T) (port int) {
	t.Helper()
	server, install := newest("/usr/sbin/mariadbd"), newest("/usr/bin/mariadb-install-db")
	mysqld := newest("/usr/sbin/mysqld")
	who := account{}
	switch {
	case server != "" && install != "":
		who = unprivileged(t, "mysql")
	case mysqld != "":
		server, install, who = mysqld, "", unprivileged(t, "mysql")
	default:
		t.Skip("neither MariaDB nor MySQL is installed (Debian's package mariadb-server)")
	}
	dir := who.dir(t)
	data := filepath.Join(dir, "data")
	port = need.Get(pgtest.Port())(t)
	if install != "" {
		who.run(t, dir, install, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--datadir="+data)
	} else {
		who.run(t, dir, server, "--no-defaults", "--initialize-insecure", "--datadir="+data)
	}
	who.serve(t, func() error {
		s := &SQL{}
		defer s.Close()
		return s.Read(t.Context(), SQLRequest{Name: "ready", Driver: "mysql", DSN: mysqlDSN(port), Query: "SELECT 1 AS one", Timeout: time.Second}).Err
	}, dir, server, "--no-defaults", "--datadir="+data, "--port="+fmt.Sprint(port), "--bind-address=127.0.0.1",
		"--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"), "--innodb-flush-log-at-trx-commit=0",
		"--innodb-buffer-pool-size=16M", "--default-time-zone=+05:30")
	return port
}

func mysqlDSN(port int) string { return "root@tcp(" + address(port) + ")/" }

func TestMySQL(t *testing.T) {
	port := mysqlInstance(t)
	s := &SQL{}
	defer s.Close()
	q := SQLRequest{Name: "my", Driver: "mysql", DSN: mysqlDSN(port), Timeout: 10 * time.Second}
	must(t, s, q, "CREATE DATABASE shop")
	must(t, s, q, `CREATE TABLE shop.o (id BIGINT UNSIGNED PRIMARY KEY, token VARCHAR(40) UNIQUE, amount DECIMAL(30,3), at TIMESTAMP(6) NULL, raw VARBINARY(9),
		doc JSON, f DOUBLE, z INT(5) ZEROFILL, d DATE)`)
	q.DSN, q.Name = q.DSN+"shop", "shop"

	t.Run("values", func(t *testing.T) {
		must(t, s, q, `INSERT INTO o VALUES (18446744073709551615, 't-1', 12345678901234567890.120, '2026-01-02 03:04:05.25', x'ff00fe', '{"n": 9007199254740993}', 0.1, 42, '2026-01-02')`)
		want := `[{"id":18446744073709551615,"token":"t-1","amount":12345678901234567890.120,"at":"2026-01-02T03:04:05.25Z","raw":"/wD+","doc":%s,"f":0.1,"z":42,"d":"2026-01-02"}]`
		for query, args := range map[string][]any{"SELECT * FROM o WHERE token = ?": {"t-1"}, "SELECT * FROM o": nil} {
			r := q
			r.Query, r.Args = query, args
			a := s.Read(t.Context(), r)
			// MariaDB keeps JSON as text.
			if got := string(a.Rows); a.Err != nil || a.Header != nil || got != fmt.Sprintf(want, `{"n":9007199254740993}`) && got != fmt.Sprintf(want, `"{\"n\": 9007199254740993}"`) {
				t.Errorf("%s: %v %v\n got %s", query, a.Err, a.Header, a.Rows)
			}
		}
		r := q
		r.Query, r.Args = "SELECT count(*) AS n FROM o WHERE token = ?", []any{"' OR 1=1 --"}
		a := s.Read(t.Context(), r)
		need.That(t, string(a.Rows) == `[{"n":0}]`, "%v %s", a.Err, a.Rows)
	})

	t.Run("a read changes nothing", func(t *testing.T) {
		for _, query := range []string{"DELETE FROM o", "SELECT 1; DELETE FROM o", "SELECT 1 INTO @x; DELETE FROM o", "WITH x AS (SELECT 1) DELETE FROM o", "/*! DELETE FROM o */"} {
			r := q
			r.Query = query
			a := s.Read(t.Context(), r)
			need.That(t, a.Err != nil, "%s: %s", query, a.Rows)
		}
		need.Equal(t, rowsOf(t, s, q, "SELECT count(*) AS n FROM o"), `[{"n":1}]`)
	})

	t.Run("bounded", func(t *testing.T) {
		endless, many := q, q
		endless.Query, endless.Timeout = "SELECT SLEEP(30) AS s, 1 AS one", 300*time.Millisecond
		many.Query = "SELECT a.n FROM (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) a, information_schema.collations b, information_schema.collations c"
		a := s.Read(t.Context(), endless)
		need.That(t, (a.Err != nil || string(a.Rows) == `[{"s":1,"one":1}]`) && a.EndedAt.Sub(a.BeganAt) <= 5*time.Second, "endless: %+v", a)
		a = s.Read(t.Context(), many)
		need.That(t, a.Truncated && a.Err == nil && strings.Count(string(a.Rows), "{") == DefaultMaxRows, "many: truncated=%v err=%v", a.Truncated, a.Err)
		need.Equal(t, rowsOf(t, s, q, "SELECT 1 AS one"), `[{"one":1}]`)
	})

	t.Run("send", func(t *testing.T) { testMySQLSend(t, s, q, port) })

	t.Run("replica", func(t *testing.T) {
		must(t, s, q, "SET GLOBAL read_only = 1")
		defer must(t, s, q, "SET GLOBAL read_only = 0")
		r := q
		r.Query = "SELECT 1 AS one"
		a := s.Read(t.Context(), r)
		need.That(t, a.Err == nil && len(a.Header[HeaderStale]) == 1 && a.Header[HeaderStale][0] == "replica", "%v %v", a.Err, a.Header)
	})
}

func testMySQLSend(t *testing.T, s *SQL, q SQLRequest, port int) {
	must(t, s, q, "CREATE TABLE w (id INT AUTO_INCREMENT PRIMARY KEY, token VARCHAR(40) UNIQUE)")
	must(t, s, q, "CREATE TABLE old (token VARCHAR(40) UNIQUE) ENGINE=MyISAM")
	insert := func(token string) SQLRequest {
		r := q
		r.Query, r.Args = "INSERT INTO w (token) VALUES (?)", []any{token}
		return r
	}
	landed := func(token string) bool {
		return rowsOf(t, s, q, "SELECT count(*) AS n FROM w WHERE token = '"+token+"'") == `[{"n":1}]`
	}
	a := s.Send(t.Context(), insert("plain"))
	need.Must(t, a.Err == nil && a.Sent && a.Affected == 1 && landed("plain"), "%+v", a)
	late, partly := insert("late"), insert("partly")
	late.Deadline = time.Now().Add(-time.Millisecond)
	for name, r := range map[string]SQLRequest{"unique violation": insert("plain"), "past the deadline": late} {
		a := s.Send(t.Context(), r)
		need.That(t, !a.Sent && a.Err != nil, "%s: sent=%v err=%v", name, a.Sent, a.Err)
	}
	partly.Query, partly.Args = "INSERT INTO old VALUES ('a'), ('b'), ('a')", nil
	if a := s.Send(t.Context(), partly); !a.Sent || a.Err == nil || rowsOf(t, s, q, "SELECT count(*) AS n FROM old") != `[{"n":2}]` {
		t.Errorf("a table without transactions: sent=%v class=%q err=%v", a.Sent, a.Class, a.Err)
	}
	for name, tc := range map[string]struct {
		before bool
		word   string
		landed bool
	}{
		"cut after the statement": {false, "INSERT", false},
		"cut before COMMIT":       {true, "COMMIT", false},
		"cut after COMMIT":        {false, "COMMIT", true},
	} {
		t.Run("I2_"+name, func(t *testing.T) {
			relay := newCutting(t, address(port), tc.before, tc.word)
			token := strings.ToLower(name)
			r := insert(token)
			r.DSN, r.Name = within(q.DSN, address(port), relay.addr), name
			a := s.Send(t.Context(), r)
			if a.Err == nil || !a.Sent || a.Class == "" || relay.cuts.Load() != 1 {
				t.Errorf("sent=%v class=%q err=%v after %d cuts", a.Sent, a.Class, a.Err, relay.cuts.Load())
			}
			need.Equal(t, landed(token), tc.landed, "landed=")
		})
	}
	hang := insert("hangs")
	hang.DSN, hang.Name = within(q.DSN, address(port), newHanging(t, address(port), "COMMIT")), "hangs"
	a = toItsCommit(t, s, hang)
	need.That(t, a.Sent && a.Class == ledger.ClassTimeout, "sent=%v class=%q err=%v", a.Sent, a.Class, a.Err)
}
