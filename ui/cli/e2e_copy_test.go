//go:build soak

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// A writer that is pointed at the ledger as it was is told where it went, and sends nothing;
// one who looks sees the history, and one who writes at the new place goes on. An engine ends.
func TestI1_E2E_AMovedLedgerSaysWhereItWent(t *testing.T) {
	s := newSite(t)
	s.must(0, "init")
	s.must(0, "run", "--kind", "note", "--key", "one", "--", "true")
	from, to := filepath.Join(s.dir, "ledger.db"), filepath.Join(s.dir, "moved 'to'", "ledger.db")
	if got := s.must(0, "copy", "--dry-run", from, to).Out; !strings.Contains(got, "would be copied") {
		t.Error(got)
	}
	engine := s.start("engine")
	store := need.Get(open.Open(t.Context(), from, open.Options{ReadOnly: true}))(t)
	defer store.Close()
	s.eventually("an engine is at work", func() bool {
		all, err := store.Leaders(t.Context())
		return err == nil && len(all.All) > 0
	})
	if got := s.must(0, "copy", from, to).Out; !strings.Contains(got, "has moved to") || !strings.Contains(got, "9 tables compared") {
		t.Error(got)
	}
	need.OK(t, os.WriteFile(to+".key", need.Get(os.ReadFile(from+".key"))(t), 0o600)) // it is not copied
	ran := filepath.Join(s.dir, "ran")
	r := s.do("--ledger", from, "run", "--kind", "note", "--key", "two", "--", "touch", ran)
	need.That(t, r.Exit != 0 && strings.Contains(r.Err, "has moved to ~/moved 'to'/ledger.db"), "%d: %s", r.Exit, r.Err)
	if found, _ := filepath.Glob(ran); found != nil {
		t.Error("the command ran")
	}
	for _, ask := range [][]string{{"begin", "--kind", "note", "--key", "two"}, {"copy", from, to + "2"}, {"adopt", "--yes"}} {
		r := s.do(append([]string{"--ledger", from}, ask...)...)
		if ask[0] != "adopt" && (r.Exit != 5 || !strings.Contains(r.Err, "moved 'to'")) {
			t.Errorf("%s: %d %s", ask, r.Exit, r.Err)
		}
	}
	if got := s.must(0, "--ledger", from, "log"); !strings.Contains(got.Out, "begin") || !strings.Contains(got.Err, "moved 'to'/ledger.db, and is shown as it was") {
		t.Error(got.Out, got.Err)
	}
	if got := s.do("--ledger", from, "doctor").Out; !strings.Contains(got, "has moved to") {
		t.Error(got)
	}
	r = engine.finish()
	need.That(t, r.Exit == 5 && strings.Contains(r.Err, "moved 'to'"), "the engine: %d: %s", r.Exit, r.Err)
	s.must(9, "--ledger", to, "begin", "--kind", "note", "--key", "one")
	s.must(0, "--ledger", to, "run", "--kind", "note", "--key", "two", "--", "true")
}
