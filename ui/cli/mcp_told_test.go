//go:build soak

package cli_test

import (
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// TestI11_AnAgentIsNotToldWhereTheLedgerIs: what an agent hears goes to places where the
// address of a database and its users should not.
func TestI11_AnAgentIsNotToldWhereTheLedgerIs(t *testing.T) {
	need.Program(t, "cat")
	s := newSite(t)
	s.ledger = pgtest.URL(t)
	s.env = append(s.env, "INDOUBT_LEDGER="+pgtest.As(s.ledger, "teller"))
	s.writePolicy("version: 1\ndownstreams:\n  d: { base: http://127.0.0.1:1 }\nkinds:\n  mcp.cat.say:\n    effect: once\n    deadline: 1s\n    token: { into: text }\n    downstream: d\n" +
		"    read: { http: { get: / }, list: body, mark: it }\n")
	psql := func(sql string) {
		t.Helper()
		if out, err := pgtest.Psql(t, s.ledger, sql); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	s.must(0, "init", "--roles", "--ledger", s.ledger)
	psql("CREATE ROLE teller LOGIN; GRANT indoubt_writer TO teller")
	tells := func(what, said string) {
		t.Helper()
		for _, place := range []string{"postgres://", "GRANT", "teller@", " teller", "/tmp/"} {
			need.That(t, !strings.Contains(said, place), "%s: %q is told: %s", what, place, said)
		}
	}
	a := s.agent("--", "cat")
	for id := range 2 { // the second asks for a check, which a writer may not make
		outcome, line := a.call(id+1, "say")
		need.Must(t, outcome == "unknown", "answer: %s", line)
		tells("in doubt", line)
	}
	psql("REVOKE indoubt_writer FROM teller")
	_, line := a.call(3, "say")
	need.Contains(t, line, "not sent")
	tells("not recorded", line)
}
