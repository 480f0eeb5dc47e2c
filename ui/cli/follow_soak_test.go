//go:build soak

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"indoubt/ledger/need"
)

// A ledger that goes away is missed aloud, and followed again when it is back: each event
// comes once.
func TestE2E_FollowingOutlivesTheLossOfItsLedger(t *testing.T) {
	s := newSite(t)
	first := s.doubtful("post", "k1", `{"text":"one"}`)
	log := s.follows("--json")
	log.line(first.ID, `"begin"`)
	log.line(first.ID, `"settle"`)
	away := filepath.Join(t.TempDir(), "away")
	need.OK(t, os.Rename(filepath.Dir(s.ledger), away))
	s.eventually("the loss is said", func() bool { return strings.Contains(log.said.String(), "the ledger is lost: ") })
	need.OK(t, os.Rename(away, filepath.Dir(s.ledger)))
	s.eventually("the return is said", func() bool { return strings.Contains(log.said.String(), "the ledger is back") })
	second := s.doubtful("post", "k2", `{"text":"two"}`)
	log.line(second.ID, `"begin"`)
	log.line(second.ID, `"settle"`)
	need.OK(t, log.cmd.Process.Signal(syscall.SIGTERM))
	log.ends()
	need.Equal(t, strings.Count(log.said.String(), "\n"), 2, "lines")
}
