package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// put writes over the file, as cp and rsync --inplace do: it stays the same inode.
func put(t *testing.T, path string, text []byte) {
	t.Helper()
	f := need.Get(os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0))(t)
	need.Get(f.Write(text))(t)
	need.OK(t, f.Close())
}

// An older state of the ledger that was put into its file knows nothing of what was sent
// since: nothing is begun in it before a person adopts it.
func TestI1_AnOlderStateInTheSameFileTakesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := need.Get(Create(ctx, path, Options{}))(t)
	begin(t, s)
	need.OK(t, s.Close())
	older := need.Get(os.ReadFile(path))(t)
	s = need.Get(Open(ctx, path, Options{}))(t)
	begin(t, s)
	need.OK(t, s.Close())

	put(t, path, older)
	s = need.Get(Open(ctx, path, Options{}))(t)
	_, err := ledger.Begin(ctx, s, request())
	need.That(t, errors.Is(err, ledger.ErrCopied), "begun: %v", err)
	need.OK(t, s.Close())
	r := need.Get(Open(ctx, path, Options{ReadOnly: true}))(t)
	need.That(t, need.Get(r.Info(ctx))(t).Copied != "", "who only looks is not told")
	need.OK(t, r.Close())

	need.OK(t, Adopt(ctx, path, Options{Actor: ann}))
	release(t, path)
	for range 2 {
		s = need.Get(Open(ctx, path, Options{}))(t)
		begin(t, s)
		need.OK(t, s.Close())
	}
}

// Programs that have it open are told by their next change, and by their next look.
func TestI1_AnOlderStateUnderOpenProgramsTakesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := need.Get(Create(ctx, path, Options{}))(t)
	begin(t, s)
	need.OK(t, s.Close())
	older := need.Get(os.ReadFile(path))(t)
	s = need.Get(Open(ctx, path, Options{}))(t)
	r := need.Get(Open(ctx, path, Options{ReadOnly: true}))(t)
	begin(t, s)
	need.Get(r.Info(ctx))(t)
	need.OK(t, rawDB(t, path).QueryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Err())

	put(t, path, older)
	_, err := ledger.Begin(ctx, s, request())
	need.That(t, errors.Is(err, ledger.ErrGone), "begun: %v", err)
	_, err = s.Info(ctx)
	need.That(t, errors.Is(err, ledger.ErrGone), "who writes is not told: %v", err)
	need.OK(t, errors.Join(r.Close(), s.Close()))
}

// A backup under the log of a newer state makes a mixture of both, which SQLite takes for a
// ledger where no page happens to contradict another.
func TestI1_ABackupUnderANewerLogTakesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := need.Get(Create(ctx, path, Options{}))(t)
	defer s.Close()
	folded := func() {
		t.Helper()
		var busy, log, done int
		need.OK(t, rawDB(t, path).QueryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &log, &done))
		need.That(t, busy == 0, "it is not folded")
	}
	begin(t, s)
	folded()
	older := need.Get(os.ReadFile(path))(t)
	for range 3 { // what is written without a checkpoint between is no other state of the file
		begin(t, s)
		need.OK(t, s.behind())
	}
	folded()
	begin(t, s)
	need.OK(t, s.behind())

	put(t, path, older)
	var damaged *DamagedError
	_, err := ledger.Begin(ctx, s, request())
	need.That(t, errors.As(err, &damaged), "begun: %v", err)
	_, err = Open(ctx, path, Options{})
	need.That(t, errors.As(err, &damaged), "opened: %v", err)
}
