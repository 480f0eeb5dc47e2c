package postgres

import (
	"errors"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/tables"
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
	refused(maker.Rebuild(ctx), "not own, who owns", "as own")
	refused(maker.SetMove(ctx, tables.Move{}, tables.Move{ID: "m", To: "there", State: tables.MoveClosed}), "not own, who owns", "as own")

	psql(t, c.URL("one"), `DROP OWNED BY indoubt_operator`)
	psql(t, c.URL("two"), `DROP OWNED BY indoubt_operator; DROP ROLE indoubt_operator`)
	ci := strings.Replace(url, "own@", "ci@", 1)
	_, err := ledger.Begin(ctx, opened(t, ci, Options{}), begun("k", 0))
	refused(err, "does not exist", "init --roles")
	said := ""
	for _, f := range s.Examine(ctx) {
		said += f.Check + " " + f.Level + " " + f.Found + "\n"
	}
	need.That(t, strings.Contains(said, "roles "+ledger.LevelFail+" the server has no role indoubt_operator"), "doctor says %s", said)
	need.OK(t, other.MakeRoles(ctx))
	need.OK(t, s.MakeRoles(ctx))
	need.Get(ledger.Begin(ctx, opened(t, ci, Options{}), begun("k", 0)))(t)
}
