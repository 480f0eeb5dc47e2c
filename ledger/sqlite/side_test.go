//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"indoubt/ledger/need"
)

func TestSideFilesAreNeverFollowed(t *testing.T) {
	t.Parallel()
	for _, side := range []string{".lock", ".bell", "-wal", "-shm"} {
		for _, how := range []string{"link to a file", "link to nothing", "hard link", "pipe"} {
			if how == "hard link" && strings.HasPrefix(side, "-") {
				continue // what is in there would be a log
			}
			t.Run(side+" "+how, func(t *testing.T) {
				dir := t.TempDir()
				path, victim := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "victim")
				need.OK(t, need.Get(Create(ctx, path, Options{}))(t).Close())
				_ = os.Remove(path + side)
				need.OK(t, os.WriteFile(victim, []byte("SECRET"), 0o600))
				switch how {
				case "link to a file":
					need.OK(t, os.Symlink(victim, path+side))
				case "link to nothing":
					need.OK(t, os.Remove(victim))
					need.OK(t, os.Symlink(victim, path+side))
				case "hard link":
					need.OK(t, os.Link(victim, path+side))
				case "pipe":
					need.OK(t, syscall.Mkfifo(path+side, 0o600))
				}
				s, err := Create(ctx, path, Options{})
				if err == nil {
					s.Close()
				}
				need.That(t, refused(err, "damaged"), "opened: %v", err)
				if text, err := os.ReadFile(victim); how == "link to nothing" && err == nil || how != "link to nothing" && string(text) != "SECRET" {
					t.Errorf("the file behind it: %q, %v", text, err)
				}
			})
		}
	}
}
