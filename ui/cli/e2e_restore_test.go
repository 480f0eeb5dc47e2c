//go:build soak

package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"indoubt/ledger/need"
)

// The page on backups, as it stands: a backup while writers write, a disaster, the
// restore, and writers that go on. What was acknowledged before the backup is there,
// and is not done again.
func TestI10_E2E_ABackupIsRestoredAsThePageSays(t *testing.T) {
	commands := blocksOn(t, "ledger/README.md", "sh")
	backUp, restore := commands[len(commands)-1], blocksOn(t, "ledger/README.md", "sh-restore")[0]
	s := newSite(t)
	s.must(0, "init")
	backup := filepath.Join(s.dir, "backup")
	need.OK(t, os.Mkdir(backup, 0o700))
	asThePageSays := func(block string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", strings.ReplaceAll(block, "/backup/", backup+"/"))
		cmd.Env, cmd.Dir = append(s.env, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH")), s.dir
		out, err := cmd.CombinedOutput()
		need.Must(t, err == nil, "%s\n%v\n%s", block, err, out)
		return string(out)
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
	asThePageSays(backUp)
	later := written.Load() + 4
	s.eventually("writers go on", func() bool { return written.Load() > later })
	over.Store(true)
	all.Wait()

	need.OK(t, overwrite(s.ledger, 0, 64<<10))
	if r := s.do("list"); r.Exit == 0 {
		t.Fatalf("it is no disaster: %s", r.Out)
	}
	said := asThePageSays(restore)
	need.Lacks(t, said, "fail ")
	for _, key := range before {
		if rows := s.rows(`SELECT state FROM op WHERE name = '` + key + `'`); len(rows) != 1 || rows[0][0] != "committed" {
			t.Errorf("%s was acknowledged before the backup, and is %v", key, rows)
		}
		need.Equal(t, write(key), 0, key, "again: exit")
	}
	s.must(7, secret...) // the same request, so it has the same digest
	need.Equal(t, write("after"), 107, "a new one before anyone has looked: exit")
	s.must(0, "release", "--all", "--reason", "looked")
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
	need.Equal(t, write("new"), 0, "it goes on: exit")
	need.Equal(t, write("lost"), 106, "what was imported is in doubt: exit")
	text = need.Get(os.ReadFile(ran))(t)
	need.Equal(t, strings.Count(string(text), "lost\n"), 1, "the lost one ran: times")
	s.sound()
	if _, err := os.Stat(filepath.Join(s.dir, "broken", "ledger.db")); err != nil {
		t.Errorf("the broken file is not kept: %v", err)
	}
}
