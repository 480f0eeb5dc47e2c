package sqlite

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger"
)

// A backup ends while others write, has all that was there, and is restored by
// putting it in the ledger's place and adopting it.
func TestABackupIsWholeAndCanBeAdopted(t *testing.T) {
	s, _ := openTest(t)
	begin(t, s, withKey("before"))
	key := must1[[]byte](t)(s.DigestKey(ctx))
	other(t, "write", s.path)
	time.Sleep(200 * time.Millisecond)
	reader := must1[*Store](t)(Open(ctx, s.path, Options{ReadOnly: true}))
	defer reader.Close()
	to := filepath.Join(t.TempDir(), "copy.db")
	must(t, reader.Backup(ctx, to)) // it comes to an end although the other one writes
	if err := reader.Backup(ctx, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another file: %v", err)
	}
	c := must1[*Store](t)(Open(ctx, to, Options{}))
	if i := must1[ledger.Info](t)(c.Info(ctx)); i.Copied == "" {
		t.Error("a copy takes writes")
	}
	must(t, c.Close())
	must(t, Adopt(ctx, to, Options{Actor: ann}))
	if !keys(t, to)["before"] {
		t.Error("what was there is not in the copy")
	}
	c = must1[*Store](t)(Open(ctx, to, Options{}))
	defer c.Close()
	begin(t, c)
	if again := must1[[]byte](t)(c.DigestKey(ctx)); string(again) != string(key) {
		t.Error("the copy has another key")
	}
}
