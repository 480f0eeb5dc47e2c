package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// once begins one operation under a key and ends; it says what came of it.
func once(path string) error {
	s, err := Create(ctx, path, Options{})
	if err == nil {
		_, err = ledger.Begin(ctx, s, request(func(r *ledger.BeginRequest) { r.Key = os.Getenv("INDOUBT_TEST_KEY") }))
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		fmt.Println("refused:", err)
		return nil
	}
	fmt.Println("begun")
	return nil
}

// elsewhere begins an operation in another process, and reports whether it was
// acknowledged there.
func elsewhere(t *testing.T, path, key string) (bool, string) {
	t.Helper()
	cmd, out, _ := other(t, "once", path, "INDOUBT_TEST_KEY="+key)
	out.Scan()
	cmd.Wait()
	return out.Text() == "begun", out.Text()
}

func keys(t *testing.T, path string) map[string]bool {
	t.Helper()
	s := need.Get(Open(ctx, path, Options{}))(t)
	defer s.Close()
	out := map[string]bool{}
	for _, key := range texts(t, s, `SELECT name FROM op`) {
		out[key] = true
	}
	return out
}

func withKey(key string) func(*ledger.BeginRequest) {
	return func(r *ledger.BeginRequest) { r.Key = key }
}

// Where a log or another trace of a ledger lies, a missing file is no reason to
// make a new one: it would take the old one's log away, and send everything again.
func TestI1_NoLedgerComesIntoBeingWhereOneWas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trace string
		force bool // Anew makes one all the same
	}{"log": {"-wal", false}, "index": {"-shm", false}, "lock": {".lock", true}, "bell": {".bell", true}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			need.OK(t, os.WriteFile(path+c.trace, []byte("kept"), 0o600))
			if _, err := Create(ctx, path, Options{}); !refused(err, "former") {
				t.Fatalf("made: %v", err)
			}
			if text := need.Get(os.ReadFile(path + c.trace))(t); string(text) != "kept" {
				t.Errorf("what was left over was changed: %q", text)
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("a file was made")
			}
			if _, err := Open(ctx, path, Options{ReadOnly: true}); !refused(err, "former") {
				t.Errorf("a reader is not told: %v", err)
			}
			s, err := Create(ctx, path, Options{Anew: true})
			need.That(t, c.force == (err == nil), "made anew on purpose: %v", err)
			if err == nil {
				s.Close()
			}
		})
	}
	// SQLite removes the log of a file without a byte.
	path := filepath.Join(t.TempDir(), "ledger.db")
	need.OK(t, os.WriteFile(path, nil, 0o600))
	need.OK(t, os.WriteFile(path+"-wal", []byte("kept"), 0o600))
	for _, o := range []Options{{}, {ReadOnly: true}} {
		if _, err := Create(ctx, path, o); !refused(err, "former") {
			t.Errorf("an emptied file: %v", err)
		}
	}
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Error("the log of an emptied file is gone")
	}
}

// A process that has the pages in memory would go on writing to a file that was cut off.
// One that was vacuumed is smaller, too, and whole.
func TestI1_ACutFileTakesNoMore(t *testing.T) {
	t.Parallel()
	for name, queries := range map[string][]string{"cut off": {"PRAGMA wal_checkpoint(PASSIVE)"}, "vacuumed": {"DROP INDEX op_by_target", "DROP INDEX op_by_token", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			s := need.Get(Create(ctx, path, Options{}))(t)
			for range 100 {
				begin(t, s)
			}
			need.OK(t, s.Close())
			s = need.Get(Create(ctx, path, Options{}))(t)
			defer s.Close()
			for range 3 {
				begin(t, s)
			}
			before := need.Get(os.Stat(path))(t).Size()
			db := rawDB(t, path)
			for _, query := range queries {
				need.Get(db.Exec(query))(t)
			}
			cut := name == "cut off"
			if cut {
				need.OK(t, os.Truncate(path, 8192))
			}
			need.That(t, need.Get(os.Stat(path))(t).Size() < before, "the file is as large as before")
			_, err := ledger.Begin(ctx, s, request())
			need.That(t, cut == (err != nil), "%v", err)
		})
	}
}

// What is not SQLite has written over pages of the file that this process has in memory.
// A checkpoint writes there, too, and is met all the time.
func TestI1_AnOverwrittenFileTakesNoMore(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]string{
		"all of it":    `SELECT 2, max(pageno) FROM dbstat`,
		"a table":      `SELECT rootpage, rootpage FROM sqlite_schema WHERE name = 'ev'`,
		"an index":     `SELECT rootpage, rootpage FROM sqlite_schema WHERE name = 'op_by_name'`,
		"the schema":   `SELECT min(pageno), min(pageno) FROM dbstat WHERE name = 'sqlite_schema' AND pageno > 1 AND pagetype = 'leaf'`,
		"a long text":  `SELECT min(pageno), min(pageno) FROM dbstat WHERE name = 'sqlite_schema' AND pagetype = 'overflow'`,
		"a checkpoint": `SELECT 0, 0`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			s := need.Get(Create(ctx, path, Options{}))(t)
			defer s.Close()
			for range 3 {
				begin(t, s)
			}
			db := rawDB(t, path)
			var busy, log, done, from, to int64
			need.OK(t, db.QueryRow(`PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &log, &done))
			need.That(t, busy == 0 && log == done, "not all of the log is in the file")
			need.OK(t, db.QueryRow(over).Scan(&from, &to))
			if from > 0 {
				f := need.Get(os.OpenFile(path, os.O_WRONLY, 0))(t)
				changed := func() int64 { return need.Get(fileWhen(path))(t).changed }
				for seen, again := changed(), true; again; again = seen != 0 && changed() == seen { // an older kernel stamps by ticks of its clock
					need.Get(f.WriteAt(bytes.Repeat([]byte("Z"), int(to-from+1)*4096), (from-1)*4096))(t)
				}
				need.OK(t, f.Close())
			}
			_, err := ledger.Begin(ctx, s, request())
			var damaged *DamagedError
			need.That(t, (from > 0) == errors.As(err, &damaged), "%v", err)
		})
	}
}

// A process whose log was removed or replaced records nothing more, and writes down what is in there when it ends.
func TestI1_ARemovedLogLosesNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what is open cannot be removed, or it is refused until the processes end")
	}
	remove := func(sides ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			for _, side := range sides {
				need.OK(t, os.Remove(path+side))
			}
		}
	}
	for name, leave := range map[string]func(t *testing.T, path string){
		"log":   remove("-wal"),
		"index": remove("-shm"),
		"both":  remove("-wal", "-shm"),
		"log replaced by a copy": func(t *testing.T, path string) {
			need.OK(t, os.WriteFile(path+".c", need.Get(os.ReadFile(path+"-wal"))(t), 0o600))
			need.OK(t, os.Rename(path+".c", path+"-wal"))
		},
		"log replaced by an empty one": func(t *testing.T, path string) {
			need.OK(t, os.Remove(path+"-wal"))
			need.OK(t, os.WriteFile(path+"-wal", nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			s := need.Get(Create(ctx, path, Options{}))(t)
			begin(t, s, withKey("a"))
			begin(t, s, withKey("b"))
			leave(t, path)
			_, err := ledger.Begin(ctx, s, request(withKey("c")))
			need.That(t, err != nil && strings.Contains(err.Error(), "had its log"), "begun: %v", err)
			s.tend() // as it does once a second
			need.OK(t, s.Close())
			ok, why := elsewhere(t, path, "d")
			need.Must(t, ok, "%s", why)
			if kept := keys(t, path); !kept["a"] || !kept["b"] || kept["c"] || !kept["d"] {
				t.Errorf("acknowledged and lost, or refused and there: %v", kept)
			}
		})
	}
}

// Who reads a file that was put back under it is told that, and as it ends it makes no mixture of two states.
func TestI1_AFileThatWasPutBackStaysAsItIs(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what is open cannot be removed, or it is refused until the processes end")
	}
	for _, sides := range [][]string{{"-wal", "-shm"}, {}} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		s := need.Get(Create(ctx, path, Options{}))(t)
		begin(t, s)
		need.Get(s.Backup(ctx, path+".older", 0))(t)
		for range 200 {
			begin(t, s)
		}
		older := need.Get(os.ReadFile(path + ".older"))(t)
		need.OK(t, os.WriteFile(path, older, 0o600))
		for _, side := range sides {
			need.OK(t, os.Remove(path+side))
		}
		_, err := s.Page(ctx, ledger.Query{Tab: ledger.TabAll, Now: s.now(), Limit: 50})
		need.That(t, err == nil || strings.Contains(err.Error(), "had its log") || strings.Contains(err.Error(), "older state"), "%v", err)
		_ = s.Close()
		need.That(t, bytes.Equal(older, need.Get(os.ReadFile(path))(t)), "with %v removed it is changed by who ends", sides)
	}
}

// A file with two names has two logs, and each side overwrites the other.
func TestI1_AFileWithTwoNamesTakesNoWrites(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	begin(t, s)
	second := filepath.Join(t.TempDir(), "second.db")
	if err := os.Link(s.path, second); err != nil {
		t.Skip(err)
	}
	twoNames := func(what string, err error) {
		t.Helper()
		need.That(t, refused(err, "damaged") && strings.Contains(err.Error(), "names"), "%s: %v", what, err)
	}
	_, err := ledger.Begin(ctx, s, request())
	twoNames("begin", err)
	_, err = s.Info(ctx)
	twoNames("info", err)
	for _, path := range []string{second, s.path} {
		for _, o := range []Options{{}, {ReadOnly: true}} {
			_, err = Open(ctx, path, o)
			twoNames("open", err)
		}
	}
	need.OK(t, os.Remove(second))
	begin(t, s)
	need.Get(s.Info(ctx))(t)
}
