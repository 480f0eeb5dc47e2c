//go:build soak

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// An engine whose ledger is taken away, or replaced by a backup, sends nothing
// more: what it would write down would be lost. It says so and ends, because
// what is at its place now is for another one.
func TestI1_E2E_AnEngineWhoseLedgerIsGone(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(t *testing.T, ledger string) error{
		"removed": func(t *testing.T, ledger string) error { return os.Remove(ledger) },
		"replaced by a backup": func(t *testing.T, ledger string) error {
			b, err := os.ReadFile(ledger)
			if err == nil {
				err = os.WriteFile(ledger+".backup", b, 0o600)
			}
			if err == nil {
				err = os.Rename(ledger+".backup", ledger)
			}
			return err
		},
		"moved with its directory": func(t *testing.T, ledger string) error {
			return os.Rename(filepath.Dir(ledger), filepath.Dir(ledger)+".away")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.ledger = filepath.Join(s.dir, "state", "ledger.db")
			s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger)
			s.writePolicy(kinds)
			s.must(0, "init")
			s.control()
			op := s.doubtful("charge", "k1", `{"amount":700,"currency":"usd","customer":"cus_9"}`, "--token-sent")
			before := len(s.down.Requests())

			engine := s.start("engine")
			s.eventually("absence is proven", func() bool { return s.show(op.ID).State == "failed" })
			need.OK(t, take(t, s.ledger))
			defer time.AfterFunc(patience, func() { engine.cmd.Process.Kill() }).Stop()
			r := engine.finish()
			need.That(t, r.Exit == 1 && strings.Contains(r.Err, "removed or replaced"), "exit %d: %s", r.Exit, r.Err)
			for _, q := range s.down.Requests()[before:] {
				need.That(t, q.Method != "POST", "I1: sent without a ledger: %s", q.Body)
			}
		})
	}
}
