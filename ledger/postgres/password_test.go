//go:build soak

package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// A proxy outlives passwords: it takes the one that lies in the file when it connects.
func TestAPasswordThatChanges(t *testing.T) {
	c := pgtest.Start(t, pgtest.Options{})
	need.OK(t, c.Exec("postgres", "CREATE DATABASE ledger"))
	need.OK(t, need.Get(Create(ctx, c.URL("ledger"), Options{}))(t).Close())
	rules := filepath.Join(c.Data(), "pg_hba.conf")
	need.OK(t, os.WriteFile(rules, append([]byte("host all secret 127.0.0.1/32 scram-sha-256\n"), need.Get(os.ReadFile(rules))(t)...), 0o644))
	file := filepath.Join(t.TempDir(), "pgpass")
	t.Setenv("PGPASSFILE", file)
	write := func(password string) {
		t.Helper()
		need.OK(t, os.WriteFile(file, fmt.Appendf(nil, "*:*:*:secret:%s\n", password), 0o600))
	}
	write("first")
	need.OK(t, c.Exec("postgres", `CREATE ROLE secret LOGIN SUPERUSER PASSWORD 'first'; SELECT pg_reload_conf()`))
	s := opened(t, strings.Replace(c.URL("ledger"), "postgres@", "secret@", 1), Options{})
	need.OK(t, c.Exec("postgres", `ALTER ROLE secret PASSWORD 'second'`))
	s.pool.Load().Reset()
	_, err := ledger.Begin(ctx, s, begun("before"))
	said := (*Error)(nil)
	need.That(t, errors.As(err, &said) && said.Code == Permission && strings.Contains(err.Error(), "PGPASSFILE"), "%v", err)
	write("second")
	need.Equal(t, need.Get(ledger.Begin(ctx, s, begun("after")))(t).Answer, ledger.AnswerBegun)
}
