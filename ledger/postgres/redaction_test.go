//go:build soak

package postgres

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// A redaction leaves the ledger as its history says.
func TestI8_Redaction(t *testing.T) {
	url := made(t)
	s, err := Open(ctx, url, Options{})
	need.OK(t, err)
	defer s.Close()
	ledgertest.Redacted(t, s, time.Now(), "")
	if d, err := s.Deviations(ctx); err != nil || len(d) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if left, err := s.Scrub(ctx); err != nil || !strings.Contains(left, "WAL") {
		t.Errorf("%q %v", left, err)
	}
}
