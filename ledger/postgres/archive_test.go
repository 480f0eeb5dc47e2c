//go:build soak

package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// Nothing leaves the ledger by plain SQL that leaves no stub, and no stub goes.
func TestArchiveGuards(t *testing.T) {
	url := made(t)
	s, err := Open(ctx, url, Options{})
	need.OK(t, err)
	defer s.Close()
	ledgertest.Shelved(t, s, time.Now())
	resists(t, url, s, ledgertest.ArchiveAttacks)
	need.OK(t, s.Rebuild(ctx))
	if _, err := ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: "shelved-a", Outcome: ledger.OutcomeCommitted, Receipt: "another", Actor: ledger.Actor{Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Deviations(ctx); err != nil || len(d) != 0 {
		t.Errorf("after one returned: %+v, %v", d, err)
	}
}

// No text comes back, and none goes but by a redaction.
func TestI8_RedactionGuards(t *testing.T) {
	url := made(t)
	s, err := Open(ctx, url, Options{})
	need.OK(t, err)
	defer s.Close()
	ledgertest.Redacted(t, s, time.Now(), "")
	resists(t, url, s, ledgertest.RedactionAttacks)
	if left, err := s.Scrub(ctx); err != nil || !strings.Contains(left, "WAL") {
		t.Errorf("%q %v", left, err)
	}
}

// resists makes statements that the ledger refuses.
func resists(t *testing.T, url string, s *Store, attacks []ledgertest.Attack) {
	t.Helper()
	conn, err := pgconn.Connect(ctx, url)
	need.OK(t, err)
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `SET search_path = indoubt`).ReadAll(); err != nil {
		t.Fatal(err)
	}
	for _, a := range attacks {
		if _, err := conn.Exec(ctx, a.SQL).ReadAll(); err == nil || !strings.Contains(err.Error(), a.Says) {
			t.Errorf("%s: %v, want %q", a.Name, err, a.Says)
		}
	}
	if d, err := s.Deviations(ctx); err != nil || len(d) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}
