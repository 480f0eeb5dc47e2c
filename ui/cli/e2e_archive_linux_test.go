//go:build soak

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// What stops an archive is said in a sentence, and takes nothing from the ledger.
func TestE2E_AnArchiveThatCannotBeWritten(t *testing.T) {
	s := bareSite(t)
	s.must(0, "init")
	store := need.Get(open.Open(t.Context(), s.ledger, open.Options{}))(t)
	defer store.Close()
	ids := settledOnes(t, store, "key-", 20)
	full := filepath.Join(s.dir, "full")
	need.OK(t, os.Mkdir(full, 0o700))
	if err := syscall.Mount("tmpfs", full, "tmpfs", 0, "size=4k"); err != nil {
		full = "" // only root may
	} else {
		defer func() { _ = syscall.Unmount(full, 0) }()
		need.OK(t, os.WriteFile(filepath.Join(full, "x"), make([]byte, 4096), 0o600))
	}
	file := filepath.Join(s.dir, "file")
	need.OK(t, os.WriteFile(file, nil, 0o600))
	for what, c := range map[string]struct {
		exit int
		dir  string
		says string
	}{
		"a file":       {1, file, "a file stands in the way of"},
		"below a file": {1, filepath.Join(file, "x"), "a file stands in the way of"},
		"no room":      {1, full, "no space left on device"},
	} {
		if c.dir == "" {
			continue
		}
		r := s.do("archive", "--settled-for", "0s", "--to", c.dir)
		need.That(t, r.Exit == c.exit && strings.Contains(r.Out+r.Err, c.says),
			"%s: exit %d: %s%s", what, r.Exit, r.Out, r.Err)
		if whole, _ := s.shelved(store, s.dir, ids); whole != len(ids) {
			t.Fatalf("%s: %d are left", what, whole)
		}
	}
	s.must(0, "archive", "--settled-for", "0s", "--to", filepath.Join(s.dir, "to")) // no one else archives
}
