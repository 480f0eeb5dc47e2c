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

// What a server refuses, or does not answer, is said without what the driver knows.
func TestWhyNothingOpens(t *testing.T) {
	url := made(t)
	with := func(change string, to string) string { return strings.Replace(url, change, to, 1) }
	at := func(parameters string) string {
		if strings.Contains(url, "?") {
			return url + "&" + parameters
		}
		return url + "?" + parameters
	}
	empty := pgtest.URL(t)
	foreign := pgtest.URL(t)
	psql(t, foreign, `CREATE SCHEMA indoubt; CREATE TABLE indoubt.things (id int)`)
	newer, older, odd := made(t), made(t), made(t)
	psql(t, newer, `UPDATE indoubt.meta SET value = value::int + 1 WHERE name = 'schema'`)
	psql(t, older, `UPDATE indoubt.meta SET value = value::int - 1 WHERE name = 'schema'`)
	psql(t, odd, `DELETE FROM indoubt.meta WHERE name = 'id'`)
	psql(t, url, `CREATE ROLE "`+secret+`"; CREATE ROLE stranger LOGIN`)
	t.Cleanup(func() { psql(t, empty, `DROP ROLE "`+secret+`"; DROP ROLE stranger`) })
	for _, c := range []struct {
		what, url string
		want      string
	}{
		{"no server", "postgres://maya:s3cr3t@127.0.0.1:1/fleet?sslmode=disable", Lost},
		{"no host", "postgres://maya:s3cr3t@no-such-host.invalid/fleet?sslmode=disable", Lost},
		{"no database", with("/test_", "/no_test_"), "no_ledger"},
		{"no ledger", empty, "no_ledger"},
		{"another schema indoubt", foreign, "not_a_ledger"},
		{"no id", odd, "not_a_ledger"},
		{"a newer one", newer, "other_schema"},
		{"an older one", older, "other_schema"},
		{"may not log in", pgtest.As(url, secret), Permission},
		{"may not look", pgtest.As(url, "stranger"), Permission},
		{"only reads", at("target_session_attrs=standby"), Lost},
	} {
		s, err := Open(ctx, c.url, Options{})
		if err == nil {
			s.Close()
		}
		said := fmt.Sprintf("%v", err)
		for chain := err; chain != nil; chain = errors.Unwrap(chain) {
			said += fmt.Sprintf("\n%+v", chain)
		}
		var trouble ledger.Troubled
		if !errors.As(err, &trouble) || trouble.Trouble(ledger.InFull).Code != c.want || strings.Contains(strings.ReplaceAll(said, `role "s3cr3t"`, ""), secret) && c.what != "may not log in" {
			t.Errorf("%s: %T %s", c.what, err, said)
		}
	}
}

// A server that is reached and cannot be used says what stands in the way, and no more: not
// what the driver was told, nor that the server must be started.
func TestAServerThatIsReached(t *testing.T) {
	url := pgtest.URL(t)
	for address, want := range map[string]string{
		strings.Replace(url, "sslmode=disable", "sslmode=require", 1): "does not answer: server refused TLS connection; have the server speak TLS",
		url + "&frobnicate=1": `does not answer: unrecognized configuration parameter "frobnicate"; take it out`,
	} {
		_, err := Open(ctx, address, Options{})
		need.That(t, errors.Is(err, ledger.ErrLost) && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "user="), "%v, want %q", err, want)
	}
}

// What libpq reads, this does: a password file, a service file, several hosts.
func TestFilesOfTheEnvironment(t *testing.T) {
	url := made(t)
	a, err := parse(url)
	need.OK(t, err)
	c := a.config.ConnConfig
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		need.OK(t, os.WriteFile(p, []byte(text), 0o600))
		return p
	}
	t.Setenv("PGSERVICEFILE", write("services", fmt.Sprintf("[fleet]\nhost=%s\nport=%d\nuser=%s\ndbname=%s\n", c.Host, c.Port, c.User, c.Database)))
	t.Setenv("PGPASSFILE", write("passwords", "*:*:*:*:"+secret+"\n"))
	s := opened(t, "postgres:///?service=fleet&sslmode=disable", Options{})
	if p := s.address.config.ConnConfig.Password; p != secret || strings.Contains(s.address.shown, secret) {
		t.Fatalf("%q, %s", p, s.address.shown)
	}
	// The first host is away, the second takes writes.
	s = opened(t, fmt.Sprintf("postgres://%s@127.0.0.1:1,%s:%d/%s?sslmode=disable&target_session_attrs=read-write", c.User, c.Host, c.Port, c.Database), Options{})
	need.OK(t, tell(s, "a"))
}

func TestReadOnly(t *testing.T) {
	url := made(t)
	s := opened(t, url, Options{ReadOnly: true})
	if err := tell(s, "a"); !errors.Is(err, ledger.ErrReadOnly) {
		t.Fatalf("%v", err)
	}
	// A database that only reads says so, and not that it is lost.
	psql(t, url, `ALTER DATABASE `+s.address.config.ConnConfig.Database+` SET default_transaction_read_only = on`)
	need.OK(t, tell(opened(t, url, Options{}), "b"), "a default that is not a rule")
}
