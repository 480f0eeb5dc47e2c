//go:build soak

package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/postgres/pgtest"
)

// A writer that is pointed at the ledger as it was is told where it went, and sends nothing;
// one who looks sees the history, and one who writes at the new place goes on. An engine ends.
func TestI1_E2E_AMovedLedgerSaysWhereItWent(t *testing.T) {
	s := bareSite(t)
	s.ledger = newLedger(t)
	s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger, "INDOUBT_POLICY=")
	from, to, file := s.ledger, pgtest.URL(t), filepath.Join(s.dir, "file.db")
	there := need.Get(open.At(to))(t).String()
	s.must(0, "run", "--kind", "note", "--key", "one", "--", "true")
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
	if got := s.must(0, "copy", from, to).Out; !strings.Contains(got, "has moved to") || !strings.Contains(got, "5 tables compared") {
		t.Error(got)
	}
	ran := filepath.Join(s.dir, "ran")
	r := s.do("--ledger", from, "run", "--kind", "note", "--key", "two", "--", "touch", ran)
	need.That(t, r.Exit != 0 && strings.Contains(r.Err, "has moved to "+there), "%d: %s", r.Exit, r.Err)
	if found, _ := filepath.Glob(ran); found != nil {
		t.Error("the command ran")
	}
	for _, ask := range [][]string{{"begin", "--kind", "note", "--key", "two"}, {"copy", from, pgtest.URL(t)}, {"adopt", "--yes"}} {
		r := s.do(append([]string{"--ledger", from}, ask...)...)
		if ask[0] != "adopt" && (r.Exit != 5 || !strings.Contains(r.Err, there)) {
			t.Errorf("%s: %d %s", ask, r.Exit, r.Err)
		}
	}
	if got := s.must(0, "--ledger", from, "log"); !strings.Contains(got.Out, "begin") || !strings.Contains(got.Err, there+", and is shown as it was") {
		t.Error(got.Out, got.Err)
	}
	if got := s.do("--ledger", from, "doctor").Out; !strings.Contains(got, "has moved to") {
		t.Error(got)
	}
	r = engine.finish()
	need.That(t, r.Exit == 5 && strings.Contains(r.Err, there), "the engine: %d: %s", r.Exit, r.Err)
	s.must(9, "--ledger", to, "begin", "--kind", "note", "--key", "one")
	s.must(0, "--ledger", to, "run", "--kind", "note", "--key", "two", "--", "true")
	s.must(0, "copy", to, file)
	s.must(9, "--ledger", file, "begin", "--kind", "note", "--key", "two")
	s.must(0, "--ledger", file, "run", "--kind", "note", "--key", "three", "--", "true")
	s.must(0, "copy", file, file+".2")
	r = s.do("--ledger", file, "run", "--kind", "note", "--key", "four", "--", "touch", ran)
	need.That(t, r.Exit != 0 && strings.Contains(r.Err, "has moved to ~/file.db.2"), "%d: %s", r.Exit, r.Err)
}
