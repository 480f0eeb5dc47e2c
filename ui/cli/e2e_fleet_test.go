//go:build soak

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// fleet is a server of its own, and who does there what the page says.
type fleet struct {
	*page
	server *pgtest.Cluster
	ledger func(user, database string) string
	here   *strings.Replacer
}

func newFleet(t *testing.T) fleet {
	t.Helper()
	need.Program(t, "psql")
	c := pgtest.Start(t, pgtest.Options{})
	f := fleet{page: newPage(t), server: c, ledger: func(user, database string) string { return pgtest.As(c.URL(database), user) }}
	f.here = strings.NewReplacer("postgres://owner@db.example/payments?sslmode=verify-full", f.ledger("owner", "payments"), "postgres://postgres@db.example/postgres", c.URL("postgres"),
		"/var/lib/indoubt", f.dir, "/etc/indoubt", f.dir)
	return f
}

// says runs a script, and needs its exit code and a word of what it prints.
func (f fleet) says(exit int, what, script string) string {
	f.Helper()
	got, out := f.run(script, "sh", "-e")
	need.Must(f, got == exit && strings.Contains(out, what), "exit %d, want %d with %q, of\n%s\n%s", got, exit, what, script, out)
	return out
}

func (f fleet) as(user, database string) string {
	return "export INDOUBT_POLICY= INDOUBT_LEDGER='" + f.ledger(user, database) + "' INDOUBT_DIGEST_KEY_FILE=" + f.dir + "/digest.key\n"
}

// The page makes a ledger on a server for many hosts, and a backup of it is put back.
func TestE2E_OneLedgerForAFleet(t *testing.T) {
	f := newFleet(t)
	blocks := blocksOn(t, "reconcile/README.md", "sh-fleet")
	need.Must(t, len(blocks) == 2, "%q", blocks)
	const secret = "run --kind post --key k -- echo --password=hunter2-correct-horse"
	f.says(0, "", f.here.Replace(blocks[0]))
	f.says(0, "made its roles", f.here.Replace(blocks[1]))
	f.says(0, "", f.as("ci", "payments")+"indoubt "+secret)
	f.says(109, "was committed", f.as("ci", "payments")+"indoubt "+secret)
	f.says(0, "nothing is due", f.as("engine", "payments")+"unset INDOUBT_DIGEST_KEY_FILE\nindoubt check")
	f.says(0, "holding", f.as("ana", "payments")+"indoubt hold --all --reason r")
	// Who makes roles records nothing, and needs no key.
	f.says(0, "made the roles", f.as("owner", "payments")+"unset INDOUBT_DIGEST_KEY_FILE\nindoubt init --roles")
	// The job of the page has the key in a secret.
	_, job, _ := strings.Cut(pageBlock(t, "yaml-ci"), "run: |\n")
	key := string(need.Get(os.ReadFile(filepath.Join(f.dir, "digest.key")))(t))
	f.says(0, "published", f.as("ci", "payments")+"export RUNNER_TEMP=runner GITHUB_REF_NAME=v2 DIGEST_KEY="+strings.TrimSpace(key)+"\nmkdir runner\necho version: 1 > policy.yaml\nprintf '#!/bin/sh\\necho published\\n' > publish.sh\nchmod +x publish.sh\n"+job)

	need.Program(t, "pg_dump")
	_, command, _ := strings.Cut(f.says(1, "pg_dump", f.as("owner", "payments")+"indoubt backup copy.dump"), "  pg_dump")
	f.says(0, "", "pg_dump"+command)
	f.says(0, "", "psql -X -q '"+f.ledger("postgres", "postgres")+"' -c 'CREATE DATABASE again OWNER owner'\npg_restore --single-transaction -d '"+f.ledger("owner", "again")+"' copy.dump")
	f.says(105, "may be missing", f.as("ci", "again")+"indoubt run --kind post --key new -- true")
	f.says(0, "goes on", f.as("owner", "again")+"indoubt adopt --yes")
	f.says(107, "begins are held", f.as("ci", "again")+"indoubt run --kind post --key new -- true")
	f.says(0, "released", f.as("owner", "again")+"indoubt release --all --look-first 0 --reason looked")
	f.says(0, "", f.as("ci", "again")+"indoubt run --kind post --key new -- true")
}

// What a user of the server may not is refused with what helps.
func TestE2E_WhatTheOwnerOfALedgerMay(t *testing.T) {
	f := newFleet(t)
	f.says(0, "", "psql -X -q '"+f.ledger("postgres", "postgres")+"' -c 'CREATE ROLE owner LOGIN' -c 'CREATE ROLE op LOGIN'")
	f.says(3, "CREATE DATABASE", f.as("owner", "payments")+"indoubt init")
	f.says(0, "", "psql -X -q '"+f.ledger("postgres", "postgres")+"' -c 'CREATE DATABASE payments OWNER owner' -c 'CREATE DATABASE second OWNER owner' -c 'CREATE DATABASE third OWNER op'")
	f.says(1, "owns the database", f.as("op", "payments")+"indoubt init")
	f.says(1, "there is no directory", f.as("owner", "payments")+"export INDOUBT_DIGEST_KEY_FILE=nowhere/digest.key\nindoubt init")
	f.says(1, "CREATEROLE", f.as("owner", "payments")+"indoubt init --roles")
	f.says(0, "made the roles", f.as("postgres", "payments")+"indoubt init --roles")
	// Roles are those of the server: for the next ledger of it no one has to make them.
	f.says(0, "GRANT indoubt_writer TO", f.as("owner", "second")+"indoubt init --roles")
	f.says(0, "", "psql -X -q '"+f.ledger("postgres", "second")+"' -c 'GRANT indoubt_operator TO op'")
	f.says(0, "", f.as("op", "second")+"indoubt list")
	f.says(1, "owns the ledger", f.as("op", "second")+"indoubt copy \"$INDOUBT_LEDGER\" '"+f.ledger("op", "third")+"'")
}

// A server with a standby that no commit waits for keeps a ledger from being made, until a person says why it does no
// harm. Doctor fails, and the engine says so.
func TestE2E_AStandbyThatForgets(t *testing.T) {
	need.Program(t, "psql")
	c := pgtest.Start(t, pgtest.Options{Durable: true})
	need.OK(t, c.Exec("postgres", "CREATE DATABASE ledger"))
	pgtest.Start(t, pgtest.Options{From: c, Settings: map[string]string{"cluster_name": "second"}})
	s := bareSite(t)
	s.ledger = c.URL("ledger")
	s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger, "INDOUBT_POLICY=")
	asks := func(sql string) string {
		return strings.TrimSpace(need.Get(pgtest.Psql(t, s.ledger, sql))(t))
	}
	waits := func(standby, is string) {
		t.Helper()
		c.Set(t, "synchronous_standby_names", standby)
		s.eventually("it is "+is, func() bool { return asks("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'") == is })
	}
	waits("", "async")
	need.Contains(t, s.must(5, "init").Err, "no commit waits for second: a standby that is promoted forgets what was acknowledged", "indoubt init --async-standby REASON")
	s.must(3, "list")
	s.must(2, "init", "--async-standby", "why", "--ledger", filepath.Join(s.dir, "file.db"))
	waits("second", "sync")
	s.must(0, "init")
	need.Contains(t, s.must(0, "doctor").Out, "commits      durable on a standby")
	waits("", "async")
	need.Contains(t, s.must(1, "doctor").Out, "fail  commits      no commit waits for second", "--async-standby REASON")
	engine := s.start("engine")
	s.eventually("the ledger is led", func() bool { return asks("SELECT count(*) FROM indoubt.lead") == "1" })
	need.OK(t, engine.cmd.Process.Signal(os.Interrupt))
	need.Contains(t, engine.finish().Err, "no commit waits for second")

	s.must(5, "init")
	need.Contains(t, s.must(0, "init", "--async-standby", "for reports only").Out, "noted why a standby")
	s.must(0, "init")
	need.Contains(t, s.must(0, "doctor").Out, "ok    commits      of second maya said on", "for reports only")
	need.Contains(t, s.must(0, "log").Out, "for reports only")
	need.Contains(t, s.must(2, "adopt", "--yes", "--async-standby", "why").Err, "indoubt init --async-standby")
	asks("SET session_replication_role = replica; UPDATE indoubt.meta SET value = 'elsewhere' WHERE name = 'home'")
	need.Contains(t, s.must(5, "adopt", "--yes").Err, "no commit waits for second")
	s.writePolicy("version: 1\n")
	need.Contains(t, s.must(0, "adopt", "--yes", "--async-standby", "still for reports only", "--policy", s.policy).Out, "is in force as number 1")
	need.Contains(t, s.must(0, "doctor").Out, "still for reports only")
}
