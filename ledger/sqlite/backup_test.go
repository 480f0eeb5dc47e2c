package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A backup ends while others write, has all that was there, and is restored by
// putting it in the ledger's place and adopting it.
func TestABackupIsWholeAndCanBeAdopted(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	before := begin(t, s, withKey("before"))
	for _, basis := range []ledger.Basis{ledger.BasisKeySafe, ledger.BasisRiskAccepted} {
		o := before.Operation
		if basis == ledger.BasisKeySafe {
			o = begin(t, s, withKey("keyed")).Operation
		}
		o = settleAs(t, s, o.LiveAttempt, ledger.OutcomeUncertain)
		_ = need.Get(ledger.Allow(ctx, s, ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), OperationID: o.ID, Version: o.Version, Basis: basis,
			Sender: "pipeline", Reason: "must", Actor: ann, ExpiresAt: time.Now().Add(time.Hour)}))(t)
	}
	key := need.Get(s.DigestKey(ctx))(t)
	writing, done := make(chan struct{}), make(chan struct{})
	var wrote sync.WaitGroup
	wrote.Go(func() {
		for n := 0; ; n++ {
			if begin(t, s); n == 3 {
				close(writing)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	defer wrote.Wait()
	defer close(done)
	<-writing
	reader := need.Get(Open(ctx, s.path, Options{ReadOnly: true}))(t)
	defer reader.Close()
	to := filepath.Join(t.TempDir(), "copy.db")
	need.Get(reader.Backup(ctx, to, 0))(t) // it comes to an end although others write
	if _, err := reader.Backup(ctx, to, 0); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another file: %v", err)
	}
	c := need.Get(Open(ctx, to, Options{}))(t)
	if i := need.Get(c.Info(ctx))(t); i.Copied == "" {
		t.Error("a copy takes writes")
	}
	need.OK(t, c.Close())
	need.OK(t, Adopt(ctx, to, Options{Actor: ann}))
	release(t, to)
	need.That(t, keys(t, to)["before"], "what was there is not in the copy")
	ahead := new(atomic.Int64)
	c = need.Get(Open(ctx, to, Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}))(t)
	defer c.Close()
	// I6: another attempt of what is older may be in the original only.
	lost := func(id string) time.Time {
		rec := need.Get(c.Read(ctx, ledger.Locator{ID: id}))(t)
		return rec.LostEnd(0)
	}
	end, after := lost(before.Operation.ID), begin(t, c)
	need.That(t, end.After(time.Now()), "a proof counts from %s", end)
	need.That(t, lost(after.Operation.ID).IsZero(), "what began here is not lost")
	need.That(t, texts(t, c, `SELECT count(*) || '' FROM op WHERE allow_until <> 0`)[0] == "0", "what allowed a send is not void")
	ahead.Store(int64(time.Hour))
	need.Get(c.Stepped(ctx, time.Hour))(t)
	need.That(t, lost(before.Operation.ID).Sub(end).Round(time.Minute) == time.Hour, "the clock was set forward by an hour, the proof by %s", lost(before.Operation.ID).Sub(end))
	if again := need.Get(c.DigestKey(ctx))(t); string(again) != string(key) {
		t.Error("the copy has another key")
	}
}

// The name of a directory that is made is in the one above it, which is synced: else a crash
// may take the ledger away with it.
func TestI10_MadeDirectoriesAreSynced(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	var synced []string
	sync := func(dir string) error {
		synced = append(synced, strings.TrimPrefix(dir, top))
		return nil
	}
	need.OK(t, makeDir(filepath.Join(top, "a", "b", "c"), 0o700, sync))
	need.Equal(t, strings.Join(synced, " "), " /a /a/b")
	need.OK(t, makeDir(filepath.Join(top, "a", "b", "c"), 0o700, sync))
	need.Equal(t, len(synced), 3)
	failed := errors.New("disk")
	if err := makeDir(filepath.Join(top, "x", "y"), 0o700, func(string) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("what is not synced is made: %v", err)
	}
	need.OK(t, os.WriteFile(filepath.Join(top, "file"), nil, 0o600))
	if err := makeDir(filepath.Join(top, "file", "below"), 0o700, sync); err == nil {
		t.Error("a directory is below a file")
	}
}
