//go:build soak

package cli_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// The page on backups, as it stands: a backup while writers write, a disaster, the
// restore, and writers that go on. What was acknowledged before the backup is there,
// and is not done again.
func TestI10_E2E_ABackupIsRestoredAsThePageSays(t *testing.T) {
	for way, put := range map[string]func(*restoring) func(){"snapshot": ofASnapshot, "dump": ofADump, "failover": ofAStandby} {
		t.Run("of a server: "+way, func(t *testing.T) { aServerIsRestored(t, way, put) })
	}
	t.Run("I13_what_is_forgotten_has_one_effect", whatIsForgottenHasOneEffect)
	s := newSite(t)
	s.must(0, "init")
	backup := filepath.Join(s.dir, "backup")
	need.OK(t, os.Mkdir(backup, 0o700))
	asThePageSays := func(language string) {
		t.Helper()
		cmd := exec.Command("sh", "-ec", strings.ReplaceAll(pageBlock(t, "sh-"+language), "/var/backups/indoubt/", backup+"/"))
		cmd.Env, cmd.Dir = append(s.env, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH")), s.dir
		out, err := cmd.CombinedOutput()
		need.That(t, err == nil && asShown(pageBlock(t, "output-"+language), string(out)), "%s: %v\n%s", language, err, out)
	}

	ran := filepath.Join(s.dir, "ran") // a line for each time that a command ran
	write := func(key string) int {
		return s.do("run", "--kind", "note", "--key", key, "--", "sh", "-c", "echo "+key+" >> "+ran).Exit
	}
	// A secret in an input needs the key of the digests.
	secret := []string{"begin", "--kind", "note", "--key", "secret", "--deadline", "1h", "--input", `{"password":"hunter2hunter2"}`}
	s.must(0, secret...)
	var told sync.Map
	var over atomic.Bool
	var all sync.WaitGroup
	var written atomic.Int64
	for w := range 2 {
		all.Go(func() {
			for n := 0; !over.Load(); n++ {
				if key := fmt.Sprintf("w%d-%d", w, n); write(key) == 0 {
					told.Store(key, written.Add(1))
				}
			}
		})
	}
	s.eventually("some are written", func() bool { return written.Load() > 5 })
	var before []string
	told.Range(func(key, _ any) bool { before = append(before, key.(string)); return true })
	s.must(0, "backup", backup, "--keep", "14")
	later := written.Load() + 4
	s.eventually("writers go on", func() bool { return written.Load() > later })
	over.Store(true)
	all.Wait()

	need.OK(t, overwrite(s.ledger, 0, 64<<10))
	if r := s.do("list"); r.Exit == 0 {
		t.Fatalf("it is no disaster: %s", r.Out)
	}
	asThePageSays("restore")
	need.Equal(t, write("after"), 105, "a new one in a copy: exit")
	found := need.Blocks(t, "../../reconcile/README.md", "jsonl")[0]
	need.OK(t, os.WriteFile(filepath.Join(s.dir, found.Name), []byte(found.Text), 0o600))
	asThePageSays("adopt")
	need.Lacks(t, s.must(0, "doctor").Out, "fail ")
	for _, key := range before {
		if rows := s.rows(`SELECT state FROM op WHERE name = '` + key + `'`); len(rows) != 1 || rows[0][0] != "committed" {
			t.Errorf("%s was acknowledged before the backup, and is %v", key, rows)
		}
		need.Equal(t, write(key), 0, key, "again: exit")
	}
	s.must(7, secret...) // the same request, so it has the same digest
	need.Equal(t, write("after"), 107, "a new one before anyone has looked: exit")
	asThePageSays("release")
	need.Equal(t, write("after"), 107, "a new one of a kind without a check: exit")
	asThePageSays("unlooked")
	need.Equal(t, write("after"), 0, "writers do not go on: exit")
	text := need.Get(os.ReadFile(ran))(t)
	times := map[string]int{}
	for _, key := range strings.Fields(string(text)) {
		times[key]++
	}
	for _, key := range append(before, "after") {
		need.That(t, times[key] == 1, "%s ran %d times", key, times[key])
	}
	// A volume that is rolled back is the same file at the same place, without its end. What this account remembers
	// has begins held, and the same key does not run again.
	s.must(0, "backup", filepath.Join(s.dir, "snapshot"))
	need.Equal(t, write("lost"), 0, "it runs: exit")
	snapshot := need.Get(os.ReadFile(filepath.Join(s.dir, "snapshot")))(t)
	need.OK(t, os.WriteFile(s.ledger, snapshot, 0o600))
	_ = errors.Join(os.Remove(s.ledger+"-wal"), os.Remove(s.ledger+"-shm"))
	need.Equal(t, s.do("doctor").Exit, 1, "nobody is told: exit")
	for _, key := range []string{"lost", "new"} {
		need.Equal(t, write(key), 107, key, "in an older state: exit")
	}
	need.Contains(t, s.do("list").Err, "older state")
	need.Contains(t, s.must(5, "release", "--all", "--reason", "no").Err, "older state")
	need.Contains(t, s.must(0, "adopt", "--yes").Out, "begins are held until you have looked")
	need.Equal(t, write("lost"), 107, "before anyone has looked: exit")
	rows := filepath.Join(s.dir, "lost.jsonl")
	need.OK(t, os.WriteFile(rows, []byte(`{"kind": "note", "key": "lost"}`), 0o600))
	s.must(0, "import", rows)
	s.must(0, "release", "--all", "--reason", "looked")
	s.must(0, "release", "note", "--look-first", "0", "--reason", "looked")
	need.Equal(t, write("new"), 0, "it goes on: exit")
	need.Equal(t, write("lost"), 106, "what was imported is in doubt: exit")
	text = need.Get(os.ReadFile(ran))(t)
	need.Equal(t, strings.Count(string(text), "lost\n"), 1, "the lost one ran: times")
	s.sound()
	if _, err := os.Stat(filepath.Join(s.dir, "broken", "ledger.db")); err != nil {
		t.Errorf("the broken file is not kept: %v", err)
	}
}

// restoring is a server's ledger that a person puts back.
type restoring struct {
	fleet
	as  string            // how the commands begin
	own map[string]string // names of the page, as they are here
}

// aServerIsRestored: what a server's ledger has forgotten is put back as the page says, and nothing of it is sent again.
// put prepares a way to put it back, and returns what happens with the disaster.
func aServerIsRestored(t *testing.T, way string, put func(*restoring) (disaster func())) {
	r := newRestoring(t)
	run := func(exit int, key string) {
		t.Helper()
		r.says(exit, "", r.as+"indoubt run --kind charge --key "+key+" -- sh -c 'echo "+key+" >> ran'")
	}
	r.says(0, "made", r.as+"indoubt init")
	run(0, "early")
	disaster := put(r)
	run(0, "INV-1042")
	disaster()
	r.block(way)
	if way != "snapshot" { // that is adopted without a begin that has noticed
		run(107, "INV-1042")
	}
	found := need.Blocks(t, "../../reconcile/README.md", "jsonl")[0]
	need.OK(t, os.WriteFile(filepath.Join(r.dir, found.Name), []byte(found.Text), 0o600))
	r.block("adopt")
	run(107, "new")
	r.block("release")
	run(107, "new")
	r.says(0, "released", r.as+"indoubt release charge --look-first 0 --reason looked")
	for _, key := range []string{"early", "INV-1042", "new"} {
		r.run(r.as+"indoubt run --kind charge --key "+key+" -- sh -c 'echo "+key+" >> ran'", "sh")
	}
	need.Equal(t, string(need.Get(os.ReadFile(filepath.Join(r.dir, "ran")))(t)), "early\nINV-1042\nnew\n", "what ran")
}

func newRestoring(t *testing.T) *restoring {
	t.Helper()
	need.Program(t, "psql", "pg_dump", "pg_restore", "curl", "awk")
	r := &restoring{fleet: newFleet(t)}
	r.as = r.fleet.as("owner", "payments")
	host := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { // whose services are started and stopped
		if r.server.Stop(); q.URL.Path == "/start" {
			need.That(t, r.server.Up() == nil, "it does not start")
		}
	}))
	t.Cleanup(host.Close)
	need.OK(t, os.WriteFile(filepath.Join(r.dir, "bin", "systemctl"), []byte("#!/bin/sh\nexec curl -sSf "+host.URL+"/$1\n"), 0o700))
	r.own = map[string]string{"/var/lib/postgresql/": r.server.Dir + "/", "/snapshot/": r.server.Dir + "/snapshot/", "/var/backups/indoubt/": r.dir + "/"}
	r.says(0, "", r.here.Replace(blocksOn(t, "reconcile/README.md", "sh-fleet")[0]))
	return r
}

// block runs one of the page, which has to print what the page shows.
func (r *restoring) block(name string) {
	r.Helper()
	text := r.here.Replace(pageBlock(r.T, "sh-"+name))
	for from, to := range r.own {
		text = strings.ReplaceAll(text, from, to)
	}
	exit, out := r.run(r.as+text, "sh", "-e")
	need.Must(r, exit == 0 && asShown(pageBlock(r.T, "output-"+name), out), "%s: exit %d\n%s", name, exit, out)
}

// ofASnapshot has the server's data as it was.
func ofASnapshot(r *restoring) func() {
	r.server.Stop()
	snapshot := r.server.Dir + "/snapshot"
	need.OK(r, os.Mkdir(snapshot, 0o755))
	out, err := exec.Command("cp", "-a", r.server.Data(), snapshot).CombinedOutput()
	need.OK(r, errors.Join(err, r.server.Up()), string(out))
	return func() {}
}

// ofADump has what the timer made.
func ofADump(r *restoring) func() {
	r.says(0, "", r.as+`pg_dump --format=custom --schema='indoubt*' --file=ledger-20261122T020000Z.dump "$INDOUBT_LEDGER"`)
	return func() {}
}

// ofAStandby has one that does not get what comes last.
func ofAStandby(r *restoring) func() {
	second := pgtest.Start(r.T, pgtest.Options{From: r.server})
	second.Stop()
	one, two := fmt.Sprint("127.0.0.1:", r.server.Port), fmt.Sprint("127.0.0.1:", second.Port)
	r.as = strings.Replace(r.as, one, one+","+two, 1)
	r.as = strings.Replace(r.as, "sslmode=disable", "sslmode=disable&target_session_attrs=read-write", 1)
	r.own["postgres://postgres@db2.example/postgres"] = second.URL("postgres")
	return func() {
		r.server.Stop()
		need.OK(r, second.Up())
	}
}
