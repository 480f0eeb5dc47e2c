//go:build unported

package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// No text comes back, and none goes but by a redaction.
func TestI8_RedactionGuards(t *testing.T) {
	url := made(t)
	s, err := Open(ctx, url, Options{})
	need.OK(t, err)
	defer s.Close()
	ledgertest.Redacted(t, s, time.Now(), "")
	conn, err := pgconn.Connect(ctx, url)
	need.OK(t, err)
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `SET search_path = indoubt`).ReadAll(); err != nil {
		t.Fatal(err)
	}
	for _, a := range ledgertest.RedactionAttacks {
		if _, err := conn.Exec(ctx, a.SQL).ReadAll(); err == nil || !strings.Contains(err.Error(), a.Says) {
			t.Errorf("%s: %v, want %q", a.Name, err, a.Says)
		}
	}
	if d, err := s.Deviations(ctx); err != nil || len(d) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if left, err := s.Scrub(ctx); err != nil || !strings.Contains(left, "WAL") {
		t.Errorf("%q %v", left, err)
	}
}
