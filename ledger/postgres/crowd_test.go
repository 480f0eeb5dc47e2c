//go:build soak

package postgres

import (
	"math/rand/v2"
	"strings"
	"testing"

	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// play is a player of a crowd, on eight connections.
func play(url string) error {
	s, err := Open(ctx, with(url, "pool_max_conns=8"), Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	return ledgertest.Play(s)
}

// I3, I4, I8: many processes begin, settle and allow at the same gates, and some die; some
// order of their calls explains every answer. One request, begun under many keys, is never
// open twice. Then 32 connections of four processes make random changes of the same
// operations; no acknowledged one is lost or made twice, and all that is counted adds up.
func TestI3_ManyProcessesPlay(t *testing.T) {
	n, rounds, begins := ledgertest.Crowd(t)
	url := made(t)
	ledgertest.PlayedRight(t, n, rounds, begins, "INDOUBT_TEST_PLAYS="+url)
	const players, seats = 4, 8
	crowd := ledgertest.Players(t, players, "INDOUBT_TEST_PLAYS="+url)
	seed := rand.Uint64() | 1
	var acknowledged []string
	for round := range rounds {
		acknowledged = append(acknowledged, crowd(ledgertest.Turn{Round: round, Seed: seed + 2*uint64(round), Seats: seats, Moves: 20}).Acknowledged...)
	}
	s := opened(t, url, Options{})
	if err := ledgertest.Milled(s, acknowledged); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if found := need.Get(s.Deviations(ctx))(t); len(found) > 0 {
		t.Errorf("seed %d: %+v", seed, found)
	}
	need.That(t, len(acknowledged) >= rounds*players*seats, "seed %d: only %d changes", seed, len(acknowledged))
	t.Logf("seed %d: %d changes: %s", seed, len(acknowledged), strings.TrimSpace(strings.ReplaceAll(psql(t, url, `SELECT verb, count(*) FROM indoubt.ev GROUP BY 1 ORDER BY 1`), "\n", ", ")))
}

func init() { others["INDOUBT_TEST_PLAYS"] = play }
