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
	"indoubt/policy/transport"
)

// postgresServer starts PostgreSQL where it is installed.
func postgresServer(t *testing.T) (who account, bin, data string, port int) {
	t.Helper()
	initdb := newest("/usr/lib/postgresql/*/bin/initdb")
	if initdb == "" {
		t.Skip("PostgreSQL is not installed (Debian's package postgresql)")
	}
	who, bin, port = unprivileged(t, "postgres"), filepath.Dir(initdb), need.Get(pgtest.Port())(t)
	data = filepath.Join(who.dir(t), "data")
	dir := filepath.Dir(data)
	who.run(t, dir, initdb, "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
	startPostgres(t, who, bin, data, port)
	return who, bin, data, port
}

func startPostgres(t *testing.T, who account, bin, data string, port int) {
	t.Helper()
	who.serve(t, func() error {
		s := &SQL{}
		defer s.Close()
		return s.Read(t.Context(), transport.SQLRequest{Driver: "postgres", DSN: postgresDSN(port), Query: "SELECT 1 AS one", Limits: transport.Limits{Timeout: time.Second}}).Err
	}, filepath.Dir(data), filepath.Join(bin, "postgres"), "-D", data, "-p", fmt.Sprint(port), "-k", filepath.Dir(data),
		"-h", "127.0.0.1", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB", "-c", "timezone=Asia/Kolkata")
}

func postgresDSN(port int) string {
	return fmt.Sprintf("postgres://postgres:secret77@%s/postgres?sslmode=disable", address(port))
}

func TestPostgreSQL(t *testing.T) {
	who, bin, data, port := postgresServer(t)
	s := &SQL{}
	defer s.Close()
	q := transport.SQLRequest{Driver: "postgres", DSN: postgresDSN(port), Limits: transport.Limits{Timeout: 10 * time.Second}}
	must(t, s, q, `CREATE TABLE o (id bigint PRIMARY KEY, token text UNIQUE, amount numeric, at timestamptz, local timestamp, raw bytea,
		doc jsonb, ok boolean, f float8, u uuid, list int[], d date)`)

	t.Run("values", func(t *testing.T) {
		must(t, s, q, `INSERT INTO o VALUES (9007199254740993, 't-1', 12345678901234567890.120, '2026-01-02 03:04:05.25+00', '2026-01-02 03:04:05',
			'\xff00fe', '{"n": 9007199254740993, "a": [1]}', true, 'NaN', '0190f5a0-0000-7000-8000-000000000001', '{1,2}', '2026-01-02'),
			(2, NULL, 1.50, 'infinity', NULL, '\x6f6b', 'null', false, 0.1, NULL, NULL, NULL)`)
		r := q
		r.Query, r.Args = "SELECT * FROM o WHERE token = $1 OR id = $2 OR amount = $3 ORDER BY id DESC", []any{"t-1", int64(2), 1.5}
		a := s.Read(t.Context(), r)
		want := `[{"id":9007199254740993,"token":"t-1","amount":12345678901234567890.120,"at":"2026-01-02T08:34:05.25+05:30","local":"2026-01-02T03:04:05Z",` +
			`"raw":"/wD+","doc":{"a":[1],"n":9007199254740993},"ok":true,"f":"NaN","u":"0190f5a0-0000-7000-8000-000000000001","list":"{1,2}","d":"2026-01-02"},` +
			`{"id":2,"token":null,"amount":1.50,"at":"infinity","local":null,"raw":"ok","doc":null,"ok":false,"f":0.1,"u":null,"list":null,"d":null}]`
		need.That(t, a.Err == nil && string(a.Rows) == want && a.Header == nil, "%v\n got %s\nwant %s", a.Err, a.Rows, want)
		r.Query = "SELECT $1 AS text, $2::int + 1 AS n, $3::bool AS b, $4::text AS nothing, $5::bytea AS raw, $6::text AS number, $7::jsonb ->> 'x' AS x"
		r.Args = []any{"'; DROP TABLE o --", int64(41), true, nil, []byte{0xff, 0}, int64(7), `{"x":"y"}`}
		if a := s.Read(t.Context(), r); a.Err != nil || string(a.Rows) != `[{"text":"'; DROP TABLE o --","n":42,"b":true,"nothing":null,"raw":"/wA=","number":"7","x":"y"}]` {
			t.Errorf("%v %s", a.Err, a.Rows)
		}
	})

	t.Run("a read changes nothing", func(t *testing.T) {
		before := rowsOf(t, s, q, "SELECT count(*) AS n FROM o")
		must(t, s, q, "CREATE SEQUENCE seq")
		for _, query := range []string{"DELETE FROM o", "WITH x AS (DELETE FROM o RETURNING id) SELECT * FROM x", "SELECT nextval('seq')",
			"SELECT 1; DELETE FROM o", "SELECT 1; COMMIT; DELETE FROM o", "SELECT * INTO p FROM o", "SELECT set_config('transaction_read_only', 'off', false), nextval('seq')"} {
			r := q
			r.Query = query
			a := s.Read(t.Context(), r)
			need.That(t, a.Err != nil, "%s: %s", query, a.Rows)
		}
		need.Equal(t, rowsOf(t, s, q, "SELECT count(*) AS n FROM o"), before)
	})

	t.Run("bounded", func(t *testing.T) {
		for name, tc := range map[string]struct {
			query   string
			timeout time.Duration
			check   func(a ledger.Answer) bool
		}{
			"many rows": {"SELECT generate_series(1, 100000000) AS n", 0, func(a ledger.Answer) bool {
				return a.Truncated && a.Err == nil && strings.HasSuffix(string(a.Rows), `{"n":1000}]`)
			}},
			"one huge value": {"SELECT repeat('x', 40000000) AS x", 0, func(a ledger.Answer) bool { return a.Truncated && len(a.Rows) < 100 }},
			"endless":        {"SELECT pg_sleep(30)", 300 * time.Millisecond, func(a ledger.Answer) bool { return a.Class == ledger.ClassTimeout }},
		} {
			t.Run(name, func(t *testing.T) {
				r := q
				r.Query = tc.query
				if tc.timeout > 0 {
					r.Timeout = tc.timeout
				}
				if a := s.Read(t.Context(), r); !tc.check(a) || a.EndedAt.Sub(a.BeganAt) > 8*time.Second {
					t.Errorf("after %s: truncated=%v class=%q err=%v, %d bytes", a.EndedAt.Sub(a.BeganAt), a.Truncated, a.Class, a.Err, len(a.Rows))
				}
			})
		}
		got := rowsOf(t, s, q, "SELECT 1 AS one")
		need.That(t, got == `[{"one":1}]`, "%v", got) // the pool is still good
	})

	t.Run("a pool is small and mends itself", func(t *testing.T) {
		// What was ended is seen at the server for a moment longer.
		endOthers := func() {
			const others = "FROM pg_stat_activity WHERE application_name = 'indoubt' AND pid <> pg_backend_pid()"
			must(t, s, q, "SELECT pg_terminate_backend(pid) "+others)
			for end := time.Now().Add(3 * time.Minute); rowsOf(t, s, q, "SELECT count(*) AS n "+others) != `[{"n":0}]`; time.Sleep(5 * time.Millisecond) {
				need.Must(t, !time.Now().After(end), "the other connections do not end")
			}
		}
		endOthers()
		done := make(chan ledger.Answer)
		for range 3 * maxConnections {
			go func() {
				r := q
				r.Query = "SELECT count(*) AS n FROM pg_stat_activity, pg_sleep(0.05) WHERE application_name = 'indoubt' AND backend_type = 'client backend'"
				done <- s.Read(t.Context(), r)
			}()
		}
		for range 3 * maxConnections {
			var n int
			a := <-done
			_, err := fmt.Sscanf(string(a.Rows), `[{"n":%d}]`, &n)
			need.That(t, err == nil && n <= maxConnections, "%v %s %v", a.Err, a.Rows, err)
		}
		endOthers()
		time.Sleep(1100 * time.Millisecond) // the pool looks at what has been idle for a second
		for range 2 * maxConnections {
			need.Equal(t, rowsOf(t, s, q, "SELECT 1 AS one"), `[{"one":1}]`)
		}
	})

	t.Run("replica", func(t *testing.T) { testPostgresReplica(t, s, q, who, bin, data, port) })
}

// A standby that stands still shows the past. Its answer must say so.
func testPostgresReplica(t *testing.T, s *SQL, q transport.SQLRequest, who account, bin, data string, port int) {
	copied, second := filepath.Join(filepath.Dir(data), "standby"), need.Get(pgtest.Port())(t)
	who.run(t, filepath.Dir(data), filepath.Join(bin, "pg_basebackup"), "-D", copied, "-R", "-X", "stream", "-c", "fast", "--no-sync",
		"-d", strings.TrimSuffix(q.DSN, "?sslmode=disable"))
	startPostgres(t, who, bin, copied, second)
	standby := q
	standby.DSN = postgresDSN(second)
	must(t, s, standby, "SELECT pg_wal_replay_pause()")
	must(t, s, q, "CREATE TABLE news AS SELECT 't-9' AS token")
	standby.Query = "SELECT relname FROM pg_class WHERE relname = 'news'"
	a := s.Read(t.Context(), standby)
	need.That(t, a.Err == nil && string(a.Rows) == "[]" && len(a.Header[HeaderStale]) == 1 && a.Header[HeaderStale][0] == "replica", "%v %s %v", a.Err, a.Rows, a.Header)
}
