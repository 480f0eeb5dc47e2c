//go:build soak

package postgres

import (
	"errors"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/store"
)

// Roles are of a whole server: one who may make none gives those that another ledger has
// brought, and is told what is missing where there are none, or where they are gone again.
func TestTheLifeOfRoles(t *testing.T) {
	c := pgtest.Start(t, pgtest.Options{})
	psql(t, c.URL("postgres"), `CREATE ROLE own LOGIN; CREATE ROLE ci LOGIN; CREATE ROLE maker LOGIN CREATEROLE; CREATE DATABASE one OWNER own; CREATE DATABASE two`)
	url := pgtest.As(c.URL("one"), "own")
	s := need.Get(Create(ctx, url, Options{}))(t)
	t.Cleanup(func() { _ = s.Close() })
	refused := func(err error, says, do string) {
		t.Helper()
		var e *Error
		if !errors.As(err, &e) || e.Code != Permission || !strings.Contains(e.Why, says) || !strings.Contains(e.Do, do) {
			t.Errorf("%v, want one that says %q and %q", err, says, do)
		}
	}
	refused(s.MakeRoles(ctx), "may not make roles", "CREATE ROLE indoubt_reader NOLOGIN; CREATE ROLE indoubt_writer NOLOGIN;")

	other := need.Get(Create(ctx, c.URL("two"), Options{}))(t)
	t.Cleanup(func() { _ = other.Close() })
	need.OK(t, other.MakeRoles(ctx))
	need.OK(t, s.MakeRoles(ctx))
	psql(t, c.URL("one"), `GRANT indoubt_operator TO maker; GRANT indoubt_writer TO ci`)
	maker := opened(t, strings.Replace(url, "own@", "maker@", 1), Options{})
	refused(maker.MakeRoles(ctx), "not own, who owns", "as own")
	refused(maker.Leave(ctx, "two", func(store.Tx) error { return nil }), "not own, who owns", "as own")

	psql(t, c.URL("one"), `DROP OWNED BY indoubt_operator`)
	psql(t, c.URL("two"), `DROP OWNED BY indoubt_operator; DROP ROLE indoubt_operator`)
	ci := strings.Replace(url, "own@", "ci@", 1)
	_, err := ledger.Begin(ctx, opened(t, ci, Options{}), begun("k"))
	refused(err, "does not exist", "init --roles")
	need.OK(t, other.MakeRoles(ctx))
	need.OK(t, s.MakeRoles(ctx))
	writer, req := opened(t, ci, Options{}), begun("k")
	need.Get(ledger.Begin(ctx, writer, req))(t)

	// A recorder's account tells its caller of what another account's lost, once over both.
	lost := begun("lost")
	need.Get(ledger.Begin(ctx, s, lost))(t)
	need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: lost.AttemptID, Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassReset, Status: -1, Actor: req.Actor}))(t)
	for i, by := range []*Store{writer, writer, s} {
		told, err := ledger.Tell(ctx, by, lost.OperationID, req.Actor)
		need.That(t, err == nil && told == (i == 0), "%d: told %v, %v", i, told, err)
	}
}

// doctor says which user's commits are not durable, and how that is undone.
func TestDoctorKnowsWhatWasSetForAUser(t *testing.T) {
	url := withRoles(t)
	psql(t, url, `ALTER ROLE ci SET synchronous_commit = off`)
	t.Cleanup(func() { psql(t, url, `ALTER ROLE ci RESET synchronous_commit`) })
	said := ""
	for _, f := range opened(t, url, Options{}).Examine(ctx) {
		said += f.Check + " " + f.Level + " " + f.Found + " → " + f.Do + "\n"
	}
	need.Contains(t, said, "commits warn synchronous_commit is off for role ci: what it writes in plain SQL is lost with the server → ALTER ROLE ci RESET synchronous_commit")
}

func TestTheRoleThatIsLacking(t *testing.T) {
	for message, want := range map[string]string{
		"permission denied for schema indoubt":  "indoubt_reader",
		"permission denied for view operations": "indoubt_reader",
		"permission denied for table meta":      "indoubt_reader",
		"permission denied for table op":        "indoubt_writer",
		"permission denied for table outage":    "indoubt_engine",
		"permission denied for table hold":      "indoubt_operator",
	} {
		need.Equal(t, strings.Join(roleFor(message), " "), want, message)
	}
	need.That(t, roleFor("permission denied for database l") == nil, "a role is named for a database")
}
