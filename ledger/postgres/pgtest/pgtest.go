// Package pgtest gives tests a real PostgreSQL: a cluster of their own in a temporary
// directory, which listens on a Unix socket and on a loopback port, and a fresh
// database for each test. Where PostgreSQL is not installed, the test is skipped.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// shared is the cluster of a test binary. It starts with the first test that needs it.
var shared struct {
	once      sync.Once
	cluster   *Cluster
	err       error
	databases atomic.Int64

	mu        sync.Mutex
	templates map[string]error

	making sync.Mutex // of databases
	maker  *pgx.Conn  // of all: another one for each costs as much as the copy
}

// Main runs the tests of a package and then removes the cluster. It belongs into
// TestMain: os.Exit(pgtest.Main(m)).
func Main(m *testing.M) int {
	code := m.Run()
	if c := shared.cluster; c != nil {
		c.Remove()
	}
	return code
}

// Shared is the cluster that the tests of a binary share.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	if _, err := programs(); err != nil {
		t.Skip(err)
	}
	shared.once.Do(func() { shared.cluster, shared.err = start(Options{}) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// URL is a new and empty database in the shared cluster, of its superuser. The
// database goes when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	return Shared(t).database(t, "template1")
}

// From is a new database that copies a template. fill makes the template once for
// each name, and must leave no connection behind.
func From(t testing.TB, name string, fill func(url string) error) string {
	t.Helper()
	c := Shared(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	template := "template_" + name
	err, made := shared.templates[name]
	if !made {
		if err = c.Exec("postgres", "CREATE DATABASE "+template); err == nil {
			err = fill(c.URL(template))
		}
		if shared.templates == nil {
			shared.templates = map[string]error{}
		}
		shared.templates[name] = err
	}
	if err != nil {
		t.Fatalf("make the template %s: %v", name, err)
	}
	url := c.database(t, template)
	if err := c.Exec(url[strings.LastIndexByte(url, '/')+1:strings.IndexByte(url, '?')], athome); err != nil {
		t.Fatal(err)
	}
	return url
}

// athome makes the copy of a ledger one of its own, without a word in its history.
const athome = `DO $$ BEGIN
	IF to_regproc('indoubt.home') IS NOT NULL THEN
		UPDATE indoubt.meta SET value = indoubt.home() || CASE name WHEN 'homes' THEN '@1' ELSE '' END WHERE name IN ('home', 'homes');
	END IF;
END $$`

// database copies a template for a test, as files: page by page through the server's memory
// it takes four times as long.
func (c *Cluster) database(t testing.TB, template string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", shared.databases.Add(1))
	if err := c.make("CREATE DATABASE " + name + " STRATEGY FILE_COPY TEMPLATE " + template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.make("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
			t.Log(err)
		}
	})
	return c.URL(name)
}

// make makes or drops a database of the shared cluster.
func (c *Cluster) make(sql string) (err error) {
	shared.making.Lock()
	defer shared.making.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if shared.maker == nil || shared.maker.IsClosed() {
		if shared.maker, err = pgx.Connect(ctx, c.URL("postgres")); err != nil {
			return err
		}
	}
	_, err = shared.maker.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// Exec runs SQL as the superuser.
func (c *Cluster) Exec(database, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// As is a database's URL for another user.
func As(url, user string) string {
	return strings.Replace(url, "postgres://postgres@", "postgres://"+user+"@", 1)
}

// Psql runs psql on a database, with a script as its input and ON_ERROR_STOP. Rows
// come unaligned, without a header.
func Psql(t testing.TB, url, script string) (string, error) {
	t.Helper()
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("psql is not installed")
	}
	cmd := exec.Command(psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-f", "-", url)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PGCONNECT_TIMEOUT=10")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
