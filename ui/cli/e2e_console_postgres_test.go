//go:build unix

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
	out, err := pgtest.Psql(t, s.ledger, "CREATE ROLE looker LOGIN; CREATE ROLE ci LOGIN; GRANT indoubt_reader TO looker; GRANT indoubt_writer TO ci")
	need.Must(t, err == nil, "%v %s", err, out)
	doubt := func(key string) operation {
		t.Helper()
		s.must(106, "--ledger", pgtest.As(s.ledger, "ci"), "run", "--kind", "post", "--key", key, "--", "sh", "-c", "exit 28")
		return s.list()[0]
	}
	o := doubt("first")
	looker := s.hand(120, 30, "--ledger", pgtest.As(s.ledger, "looker"))
	looker.sees("first")
	looker.sees("READ-ONLY")
	looker.press("C")
	looker.sees("C is off: read-only")
	ci := s.hand(120, 30, "--ledger", pgtest.As(s.ledger, "ci"))
	ci.sees("first")
	ci.press("C")
	ci.sees("How do you know")
	ci.press("x", "tab", "x", "tab", "enter")
	ci.sees("GRANT indoubt_operator TO ci")
	need.Equal(t, s.show(o.ID).State, "uncertain", o, "after a writer has confirmed it")

	r, through := pgtest.Through(t, s.ledger)
	maya := s.hand(120, 30, "--ledger", through)
	maya.sees("first")
	r.Away(true)
	maya.sees("ledger lost, trying again")
	doubt("second")
	r.Away(false)
	maya.sees("second")
	maya.sees("the ledger is back")
}
