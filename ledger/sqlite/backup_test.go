package sqlite

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// A backup ends while others write, has all that was there, and is restored by
// putting it in the ledger's place and adopting it.
func TestABackupIsWholeAndCanBeAdopted(t *testing.T) {
	s, _ := openTest(t)
	begin(t, s, withKey("before"))
	key := need.Get(s.DigestKey(ctx))(t)
	other(t, "write", s.path)
	time.Sleep(200 * time.Millisecond)
	reader := need.Get(Open(ctx, s.path, Options{ReadOnly: true}))(t)
	defer reader.Close()
	to := filepath.Join(t.TempDir(), "copy.db")
	need.OK(t, reader.Backup(ctx, to)) // it comes to an end although the other one writes
	if err := reader.Backup(ctx, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another file: %v", err)
	}
	c := need.Get(Open(ctx, to, Options{}))(t)
	if i := need.Get(c.Info(ctx))(t); i.Copied == "" {
		t.Error("a copy takes writes")
	}
	need.OK(t, c.Close())
	need.OK(t, Adopt(ctx, to, Options{Actor: ann}))
	if !keys(t, to)["before"] {
		t.Error("what was there is not in the copy")
	}
	c = need.Get(Open(ctx, to, Options{}))(t)
	defer c.Close()
	begin(t, c)
	if again := need.Get(c.DigestKey(ctx))(t); string(again) != string(key) {
		t.Error("the copy has another key")
	}
}
