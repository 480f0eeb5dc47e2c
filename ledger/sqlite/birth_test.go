package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// namesIn are the files of a directory.
func namesIn(t *testing.T, dir string) (out []string) {
	t.Helper()
	for _, e := range need.Get(os.ReadDir(dir))(t) {
		out = append(out, e.Name())
	}
	return out
}

// A ledger has its name only when it is whole. What one left that was killed before is
// removed by the next one.
func TestI10_AKillAtItsBirthLeavesNoLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	for _, side := range []string{"", "-journal", "-wal", "-shm"} {
		need.OK(t, os.WriteFile(path+making+side, []byte("half"), 0o600))
	}
	if _, err := Open(ctx, path, Options{ReadOnly: true}); !errors.As(err, new(*ledger.MissingError)) {
		t.Errorf("what was left is taken for a ledger: %v", err)
	}
	need.OK(t, need.Get(Create(ctx, path, Options{}))(t).Close())
	need.That(t, !slices.ContainsFunc(namesIn(t, filepath.Dir(path)), func(name string) bool { return strings.Contains(name, making) }),
		"%v is left", namesIn(t, filepath.Dir(path)))
	need.That(t, need.Get(os.Stat(path))(t).Mode().Perm()&0o077 == 0, "others may read it")
}

// Those who make the same ledger at once all write to one.
func TestALedgerIsMadeOnceByMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "there", "ledger.db")
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() {
			s, err := Create(ctx, path, Options{})
			if err == nil {
				_, err = ledger.Begin(ctx, s, request())
				err = errors.Join(err, s.Close())
			}
			errs[i] = err
		})
	}
	all.Wait()
	need.OK(t, errors.Join(errs...))
	need.That(t, len(keys(t, path)) == len(errs), "%v", keys(t, path))
}

// cutBirth leaves what a program leaves that was killed while it made tables in a file without
// a log: pages, and the journal by which they are taken back.
func cutBirth(t *testing.T, path string, before ...string) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "from.db")
	db := need.Get(sql.Open("sqlite", from+"?_pragma=journal_mode(DELETE)&_pragma=cache_size(1)"))(t)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, query := range before {
		need.Get(db.Exec(query))(t)
	}
	tx := need.Get(db.Begin())(t)
	defer tx.Rollback() //nolint:errcheck // it is the copies that count
	need.Get(tx.Exec(`CREATE TABLE t (x)`))(t)
	for range 50 {
		need.Get(tx.Exec(`INSERT INTO t VALUES (randomblob(2000))`))(t)
	}
	for _, side := range []string{"", "-journal"} {
		need.OK(t, os.WriteFile(path+side, need.Get(os.ReadFile(from+side))(t), 0o600))
	}
}

// A journal is played back, whoever comes first.
func TestAJournalIsPlayedBack(t *testing.T) {
	for name, open := range map[string]func(path string) (*Store, error){
		"by one who makes a ledger": func(path string) (*Store, error) { return Create(ctx, path, Options{}) },
		"by a reader": func(path string) (*Store, error) {
			if _, err := Open(ctx, path, Options{ReadOnly: true}); err == nil || errors.Is(err, ledger.ErrReadOnly) {
				return nil, errors.Join(errors.New("a file without anything in it"), err)
			}
			return Create(ctx, path, Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			cutBirth(t, path)
			s := need.Get(open(path))(t)
			begin(t, s)
			need.OK(t, s.Close())
			need.OK(t, Check(ctx, path))
			_, err := os.Stat(path + "-journal")
			need.That(t, errors.Is(err, os.ErrNotExist), "the journal is still there")
		})
	}
}

// A journal without its file belongs to none that is made there.
func TestAJournalWithoutItsFileIsATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	cutBirth(t, path)
	need.OK(t, os.Remove(path))
	_, err := Create(ctx, path, Options{Anew: true})
	need.That(t, refused(err, "former"), "%v", err)
}
