package sqlite

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"testing"

	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
)

// The key belongs to the ledger: whoever opens it gets the same one, or is refused.
func TestTheDigestKeyBelongsToTheLedger(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			other, err := Open(ctx, s.path, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer other.Close()
			if keys[i], err = other.DigestKey(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		need.Must(t, len(key) == 32 && bytes.Equal(key, keys[0]), "%x and %x", keys[0], key)
	}
	reader := need.Get(Open(ctx, s.path, Options{ReadOnly: true}))(t)
	defer reader.Close()
	if key := need.Get(reader.DigestKey(ctx))(t); !bytes.Equal(key, keys[0]) {
		t.Error("a reader has another key")
	}
	if info := need.Get(os.Stat(s.path + ".key"))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %#o", info.Mode().Perm())
	}
	kept := need.Get(os.ReadFile(s.path + ".key"))(t)
	for name, text := range map[string][]byte{"another": bytes.ReplaceAll(kept, kept[:1], []byte("0")), "short": []byte("00\n"), "missing": nil} {
		need.OK(t, os.Remove(s.path+".key"))
		if bytes.Equal(text, kept) { // it began with a 0
			text[0] = '1'
		}
		if text != nil {
			need.OK(t, os.WriteFile(s.path+".key", text, 0o600))
		}
		var wrong *digestkey.Error
		if _, err := s.DigestKey(ctx); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "missing" {
			if _, err := os.Stat(s.path + ".key"); err == nil {
				t.Error("another key was made")
			}
		}
		need.OK(t, os.WriteFile(s.path+".key", kept, 0o600))
	}
	need.Get(s.DigestKey(ctx))(t)
}
