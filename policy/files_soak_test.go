//go:build soak

package policy

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// All files of a policy are watched, those that come later too.
func TestEveryFileOfAPolicyIsWatched(t *testing.T) {
	dir := t.TempDir()
	main, more := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "policy.d", "more.yaml")
	need.OK(t, os.WriteFile(main, []byte("version: 1\n"), 0o600))
	need.OK(t, os.Mkdir(filepath.Dir(more), 0o700))
	changes := make(chan seen, 10)
	go func() {
		_ = Watch(t.Context(), main, need.Get(Load(main))(t), func(p *Policy, err error) { changes <- seen{p, err} })
	}()
	next := func(what string) seen {
		select {
		case s := <-changes:
			return s
		case <-time.After(20 * time.Second):
			t.Fatal(what + " was not noticed")
			return seen{}
		}
	}
	time.Sleep(300 * time.Millisecond)
	need.OK(t, os.WriteFile(more, []byte("kinds: { a: {} }\n"), 0o600))
	need.That(t, len(next("a new file").p.Kinds()) == 1, "it is not there")
	need.OK(t, os.WriteFile(more, []byte("kinds: { a: {}, b: {} }\n"), 0o600))
	need.That(t, len(next("a change").p.Kinds()) == 2, "it is not there")
	need.OK(t, os.Remove(more))
	need.That(t, len(next("a file that went").p.Kinds()) == 0, "it is there")
}
