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
	said := ""
	for _, f := range s.Examine(ctx) {
		said += f.Check + " " + f.Level + " " + f.Found + "\n"
	}
	need.That(t, strings.Contains(said, "roles "+ledger.LevelFail+" the server has no role indoubt_operator"), "doctor says %s", said)
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

// doctor says what was set or taken by hand, and how that is undone.
func TestDoctorKnowsTheUsers(t *testing.T) {
	url := withRoles(t)
	s := opened(t, url, Options{})
	says := func() (said string) {
		for _, f := range s.Examine(ctx) {
			if f.Check == "roles" || f.Check == "commits" {
				said += f.Level + " " + f.Found + " → " + f.Do + "\n"
			}
		}
		return said
	}
	need.Equal(t, len(rights()), 266, "privileges that the roles give")
	before := says()
	need.That(t, !strings.Contains(before, "no longer") && !strings.Contains(before, "role"), "of a ledger as it was made: %s", before)
	psql(t, url, `REVOKE INSERT ON indoubt.op FROM indoubt_writer; REVOKE UPDATE (until) ON indoubt.lead FROM indoubt_engine; REVOKE SELECT ON indoubt.meta FROM indoubt_reader;
		ALTER ROLE ci NOINHERIT; ALTER ROLE ci SET synchronous_commit = off`)
	t.Cleanup(func() { psql(t, url, `ALTER ROLE ci INHERIT; ALTER ROLE ci RESET synchronous_commit`) })
	need.Contains(t, says(), "indoubt_engine may no longer UPDATE indoubt.lead, and 2 more like it → have the ledger's owner")
	need.Contains(t, says(), "warn synchronous_commit is off for role ci: what it writes in plain SQL is lost with the server → ALTER ROLE ci RESET synchronous_commit")
	need.Contains(t, says(), "warn ci was given indoubt_writer, and does not inherit it: it is refused unless it sets that role → ")
	need.OK(t, s.MakeRoles(ctx))
	need.That(t, !strings.Contains(says(), "no longer"), "%s", says())
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
