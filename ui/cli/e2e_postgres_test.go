//go:build soak

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// inPostgreSQL begins the names of the tests whose sites have a ledger on a server.
const inPostgreSQL = "TestE2E_TheSameInPostgreSQL/"

// newLedger is a fresh ledger on a server, made by the program.
func newLedger(t testing.TB) string {
	t.Helper()
	url := pgtest.From(t, "indoubt", func(url string) error {
		if out, err := exec.Command(program, "init", "--ledger", url).CombinedOutput(); err != nil {
			return fmt.Errorf("init: %w\n%s", err, out)
		}
		return nil
	})
	return url + "&connect_timeout=20" // a busy machine takes its time
}

// These are the tests of a ledger in a file whose rule a server keeps by other means: its
// locks, its clock, its order of events, its roles. Each process is on a host of its own.
// What is the program's business alone is not repeated; ledgertest holds both stores to the rest.
func TestE2E_TheSameInPostgreSQL(t *testing.T) {
	newLedger(t) // or skips
	for _, test := range []func(*testing.T){
		TestI3_E2E_ManyBeginOneKey, TestI5_E2E_ManyFetchOneGrant, TestI10_E2E_KilledAnywhere, TestE2E_TwoEnginesOneReaderEach,
		TestI10_E2E_ARunWhoseDriverIsKilledGoesOnElsewhere, TestE2E_TheKeyOfTheDigestsIsASecretFile, TestE2E_AllHasEachOnce,
		TestE2E_FollowingEndsWithItsPipe, TestE2E_RedactedForGood,
	} {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndexByte(name, '.')+1:], func(t *testing.T) {
			if test(t); host(t) == nil && !t.Failed() {
				t.Skip(oneHost)
			}
		})
	}
}

// pageBlock is the first block in a language on the page of who deploys.
func pageBlock(t *testing.T, language string) string {
	t.Helper()
	return blocksOn(t, "reconcile/README.md", language)[0]
}

// What a server does otherwise than a file is said, with what to do instead.
func TestE2E_ALedgerInPostgreSQL(t *testing.T) {
	s := bareSite(t)
	s.ledger = pgtest.URL(t)
	s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger, "INDOUBT_POLICY=")
	say := func(exit int, what string, args ...string) result {
		t.Helper()
		r := s.do(args...)
		if r.Exit != exit || !strings.Contains(r.Out+r.Err, what) {
			t.Fatalf("indoubt %s: exit %d, want %d with %q\n%s%s", strings.Join(args, " "), r.Exit, exit, what, r.Out, r.Err)
		}
		return r
	}
	say(3, "indoubt init", "list")
	say(103, "No ledger at", "run", "--kind", "post", "--", "touch", filepath.Join(s.dir, "sent"))
	if _, err := os.Stat(filepath.Join(s.dir, "sent")); err == nil {
		t.Fatal("what could not be recorded was sent")
	}
	say(0, "would make", "init", "--dry-run")
	say(5, "--read-only", "init", "--read-only")
	say(1, "in a file", "init", "--group", "users")
	say(3, "No ledger", "list") // none of these has made one
	say(0, "made a ledger", "init")
	say(0, "already", "init")
	say(0, "would make the roles", "init", "--roles", "--dry-run")
	say(0, "made the roles", "init", "--roles")
	say(0, "made the roles", "init", "--roles")
	roles := "SELECT count(*) || ' roles' FROM pg_roles WHERE rolname IN ('indoubt_reader', 'indoubt_writer', 'indoubt_operator', 'indoubt_engine')"
	if out, err := pgtest.Psql(t, s.ledger, roles); err != nil || !strings.Contains(out, "4 roles") {
		t.Errorf("the roles: %v %s", err, out)
	}
	if out, err := pgtest.Psql(t, s.ledger, "CREATE ROLE looker LOGIN; CREATE ROLE ci LOGIN; CREATE ROLE eng LOGIN; CREATE ROLE out LOGIN;"+
		"GRANT indoubt_reader TO looker; GRANT indoubt_writer TO ci; GRANT indoubt_engine TO eng;"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	as := func(user string, args ...string) []string {
		return append([]string{"--ledger", pgtest.As(s.ledger, user)}, args...)
	}
	post := []string{"run", "--kind", "post", "--", "touch", filepath.Join(s.dir, "sent")}
	say(0, "", as("looker", "list")...)
	say(106, "", as("ci", "run", "--kind", "post", "--key", "a", "--", "sh", "-c", "exit 28")...)
	doubt := seen(s.only())
	// A refusal names the role that is lacking, and how it is given.
	for _, c := range []struct {
		exit       int
		user, role string
		args       []string
	}{
		{1, "out", "indoubt_reader", []string{"list"}},
		{101, "out", "indoubt_reader", post},
		{105, "looker", "indoubt_writer", post},
		{5, "looker", "indoubt_writer", []string{"settle", s.handle(s.only().ID), "--outcome", "committed"}},
		{5, "looker", "indoubt_operator", []string{"hold", "--all", "--reason", "r"}},
		{5, "looker", "indoubt_engine", []string{"check"}},
		{5, "ci", "indoubt_operator", []string{"confirm", doubt, "--reason", "r"}},
		{5, "ci", "indoubt_operator", []string{"hold", "--all", "--reason", "r"}},
		{5, "ci", "indoubt_operator", []string{"park", doubt, "--until", "2h"}},
		{5, "eng", "indoubt_operator", []string{"abandon", doubt, "--reason", "r"}},
		{5, "eng", "indoubt_operator", []string{"hold", "--all", "--reason", "r"}},
	} {
		say(c.exit, "GRANT "+c.role+" TO "+c.user, as(c.user, c.args...)...)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "sent")); err == nil {
		t.Fatal("a reader has sent something")
	}
	say(2, "is for a ledger in a file", "init", "--roles", "--group", "here")
	say(2, "PostgreSQL", "init", "--roles", "--ledger", filepath.Join(s.dir, "file.db"))
	say(2, "in a file", "init", "--group", "here")
	say(0, "nothing to adopt", "adopt")
	elsewhere := "SET session_replication_role = replica; UPDATE indoubt.meta SET value = 'elsewhere.1' WHERE name = 'home'"
	if out, err := pgtest.Psql(t, s.ledger, elsewhere); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	// It is said before anything is begun there, too.
	say(0, "FAILOVER ", append([]string{"--read-only"}, as("looker", "list")...)...)
	say(1, "nothing is begun or allowed", as("looker", "doctor")...)
	say(0, "would adopt", "adopt", "--dry-run")
	say(105, "may be missing", "run", "--kind", "post", "--", "touch", filepath.Join(s.dir, "sent"))
	if _, err := os.Stat(filepath.Join(s.dir, "sent")); err == nil {
		t.Fatal("a ledger that failed over has sent something")
	}
	say(5, "failed over", "begin", "--kind", "post", "--key", "over")
	for _, look := range []string{"list", "report"} {
		say(0, "", look)
	}
	say(0, "FAILOVER ", "list")
	say(1, "nothing is begun or allowed", "doctor")
	say(0, "would adopt", "adopt", "--dry-run")
	say(2, "first look", "adopt")
	say(0, "begins are held until you have looked", "adopt", "--yes")
	say(107, "come again", "run", "--kind", "post", "--key", "k", "--", "true")
	say(0, "released all", "release", "--all", "--look-first", "0", "--reason", "looked")
	say(0, "may be missing", "log")
	say(0, "what was recorded last", "log")
	say(0, "nothing to adopt", "adopt")
	say(1, "fsync is off", "doctor") // as the cluster of the tests is
	for range 2 {
		say(106, "", "run", "--kind", "post", "--key", "k", "--", "sh", "-c", "exit 28")
	}
	for _, tag := range []string{"yaml-ci", "yaml-job", "yaml-sidecar"} {
		var any any
		need.OK(t, yaml.Unmarshal([]byte(pageBlock(t, tag)), &any))
	}
	_, list, _ := strings.Cut(pageBlock(t, "yaml-job"), "command: ")
	list, _, _ = strings.Cut(list, "\n")
	var job []string
	need.OK(t, yaml.Unmarshal([]byte(list), &job))
	say(0, "", append(job[1:len(job)-1], "true")...)

	dump := filepath.Join(s.dir, "copy.dump")
	r := say(1, "pg_dump ", "backup", dump)
	if _, err := exec.LookPath("pg_dump"); err == nil {
		_, command, _ := strings.Cut(r.Err, "pg_dump ")
		if out, err := exec.Command("sh", "-c", "pg_dump "+command).CombinedOutput(); err != nil {
			t.Errorf("what is said of a backup: %v\n%s", err, out)
		}
		if info, err := os.Stat(dump); err != nil || info.Size() == 0 {
			t.Errorf("there is no copy: %v", err)
		}
	}
	if r := say(2, "PGPASSFILE", "--ledger", "postgres://app:hunter2@127.0.0.1/x", "list"); strings.Contains(r.Out+r.Err, "hunter2") {
		t.Errorf("the password is repeated: %s%s", r.Out, r.Err)
	}
}
