//go:build soak

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
)

// A ledger on a server that has no key takes what holds no secret, until its owner gives
// it one.
func TestE2E_AServersLedgerIsGivenItsKey(t *testing.T) {
	s := bareSite(t)
	s.ledger = newLedger(t)
	s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger, "INDOUBT_POLICY=")
	key := filepath.Join(s.dir, "digest.key")
	secret := []string{"run", "--kind", "post", "--", "touch", filepath.Join(s.dir, "sent"), "--password=hunter2-correct-horse"}
	need.That(t, s.do("run", "--kind", "post", "--", "true").Exit == 0, "without a secret it is refused")
	if r := s.do(secret...); r.Exit != 101 || !strings.Contains(r.Err, "indoubt init") {
		t.Errorf("with a secret: exit %d %s", r.Exit, r.Err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "sent")); err == nil {
		t.Error("it was sent")
	}
	s.env = append(s.env, digestkey.Variable+"="+key)
	if r := s.do("run", "--kind", "post", "--", "true"); r.Exit != 101 || !strings.Contains(r.Err, "indoubt init") {
		t.Errorf("a key that the ledger does not know: exit %d %s", r.Exit, r.Err)
	}
	if r := s.do("init", "--dry-run"); r.Exit != 0 || !strings.Contains(r.Out, "would give") {
		t.Errorf("%d %s%s", r.Exit, r.Out, r.Err)
	}
	if r := s.do("init"); r.Exit != 0 || !strings.Contains(r.Out, "gave ") {
		t.Fatalf("%d %s%s", r.Exit, r.Out, r.Err)
	}
	if r := s.do("init"); r.Exit != 0 || !strings.Contains(r.Out, "already") {
		t.Errorf("%d %s%s", r.Exit, r.Out, r.Err)
	}
	r := s.do("run", "--kind", "post", "--", "true", "--password=hunter2-correct-horse")
	need.That(t, r.Exit == 0, "%s%s", r.Out, r.Err)
}
