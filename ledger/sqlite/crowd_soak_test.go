//go:build soak

package sqlite

import (
	"testing"

	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

func init() {
	roles["play"] = func(path string) error {
		s, err := Open(ctx, path, Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		return ledgertest.Play(s)
	}
}

// I3, I4: many processes begin, settle and allow at the same gates, and some die; some order
// of their calls explains every answer. One request, begun under many keys, is never open
// twice.
func TestI3_ManyProcessesPlay(t *testing.T) {
	n, rounds, begins := ledgertest.Crowd(t)
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	ledgertest.PlayedRight(t, n, rounds, begins, "INDOUBT_TEST_ROLE=play", "INDOUBT_TEST_LEDGER="+s.path)
}
