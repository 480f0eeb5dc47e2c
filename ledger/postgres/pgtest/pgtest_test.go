//go:build soak

package pgtest_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"indoubt/ledger/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	made := 0
	fill := func(url string) error {
		made++
		_, err := pgtest.Psql(t, url, `CREATE TABLE here (n bigint); INSERT INTO here VALUES (1)`)
		return err
	}
	for range 2 {
		out, err := pgtest.Psql(t, pgtest.From(t, "here", fill), `INSERT INTO here VALUES (2); SELECT sum(n), current_user FROM here`)
		if err != nil || out != "3|postgres\n" {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if out, err := pgtest.Psql(t, pgtest.URL(t), `SELECT * FROM here`); err == nil || !strings.Contains(out, `"here" does not exist`) || made != 1 {
		t.Fatalf("%v: %s (%d templates)", err, out, made)
	}
}

// What is committed in earnest is there after a crash; a standby follows and takes over.
func TestAClusterOfItsOwn(t *testing.T) {
	c := pgtest.Start(t, pgtest.Options{Durable: true})
	if err := c.Exec("postgres", `CREATE TABLE here (n bigint); INSERT INTO here VALUES (7)`); err != nil {
		t.Fatal(err)
	}
	c.Kill()
	if err := c.Up(); err != nil {
		t.Fatal(err)
	}
	s := pgtest.Start(t, pgtest.Options{From: c})
	c.Stop()
	if err := s.Promote(); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(context.Background(), s.SocketURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var n int
	if err := conn.QueryRow(context.Background(), `SELECT n FROM here WHERE NOT pg_is_in_recovery()`).Scan(&n); err != nil || n != 7 {
		t.Fatal(n, err)
	}
}
