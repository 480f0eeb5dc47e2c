//go:build soak

package cli_test

import (
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// The console shows what the database lets its user do, and goes on when the database was
// away.
func TestE2E_TheConsoleOfADatabase(t *testing.T) {
	s := bareSite(t)
	s.ledger = newLedger(t)
	s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger, "INDOUBT_POLICY=")
	s.must(0, "init", "--roles")
	out, err := pgtest.Psql(t, s.ledger, "CREATE ROLE glance LOGIN; CREATE ROLE p2 LOGIN; CREATE ROLE was LOGIN; GRANT indoubt_reader TO glance; GRANT indoubt_writer TO p2; GRANT indoubt_writer, indoubt_operator TO was")
	need.Must(t, err == nil, "%v %s", err, out)
	doubt := func(key string) operation {
		t.Helper()
		s.must(106, "--ledger", pgtest.As(s.ledger, "p2"), "run", "--kind", "post", "--key", key, "--", "sh", "-c", "exit 28")
		return s.list()[0]
	}
	o := doubt("first")
	glance := s.hand(120, 30, "--ledger", pgtest.As(s.ledger, "glance"))
	glance.sees("first")
	glance.sees("READ-ONLY")
	glance.press("C")
	glance.sees("C is off: read-only")
	pipe := s.hand(120, 30, "--ledger", pgtest.As(s.ledger, "p2"))
	pipe.sees("GRANT indoubt_operator TO p2")
	pipe.sees("READ-ONLY")
	pipe.sees("sums of another policy") // no engine here will price them
	pipe.press("C")
	pipe.sees("C is off: read-only")
	r := s.must(5, "--ledger", pgtest.As(s.ledger, "p2"), "confirm", seen(o), "--reason", "seen", "--receipt", "r")
	need.Contains(t, r.Err, "GRANT indoubt_operator TO p2")
	was := s.hand(120, 30, "--ledger", pgtest.As(s.ledger, "was"))
	was.sees("KNOWN") // its details are read
	was.press("C")
	was.sees("How do you know")
	out, err = pgtest.Psql(t, s.ledger, "REVOKE indoubt_operator FROM was")
	need.Must(t, err == nil, "%v %s", err, out)
	was.press("x", "tab", "x", "tab", "enter")
	was.sees("it needs indoubt_operator")
	was.sees("READ-ONLY")
	need.Equal(t, s.show(o.ID).State, "uncertain", o, "after one who may not any more has confirmed it")

	relay, through := pgtest.Through(t, s.ledger)
	maya := s.hand(120, 30, "--ledger", through)
	maya.sees("first")
	relay.Away(true)
	maya.sees("ledger lost, trying again")
	doubt("second")
	relay.Away(false)
	maya.sees("second")
	maya.sees("the ledger is back")
}
