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

// I8: a role for which triggers do not run is guarded all the same;
// where it may not have them run, it is refused.
func TestI8_ARoleWithoutTriggers(t *testing.T) {
	url := withRoles(t)
	psql(t, url, `CREATE ROLE replicator SUPERUSER LOGIN; ALTER ROLE replicator SET session_replication_role = replica;
		CREATE ROLE replicated LOGIN IN ROLE indoubt_writer; ALTER ROLE replicated SET session_replication_role = replica`)
	t.Cleanup(func() {
		psql(t, url, `DROP ROLE replicator; DROP ROLE replicated`)
	})
	for _, mode := range modes {
		s := opened(t, with(pgtest.As(url, "replicator"), mode), Options{})
		for _, key := range []string{"first", "again"} {
			req := begun(mode + key)
			need.Equal(t, need.Get(ledger.Begin(ctx, s, req))(t).Answer, ledger.AnswerBegun)
			_ = need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: req.AttemptID, Outcome: ledger.OutcomeCommitted, Actor: req.Actor}))(t)
			need.Equal(t, strings.Join(strings.Fields(psql(t, url, `SELECT verb FROM indoubt.ev WHERE op = (SELECT seq FROM indoubt.op WHERE id = '`+req.OperationID+`') ORDER BY seq`)), " "), "begin settle")
		}
	}
	s := opened(t, pgtest.As(url, "replicated"), Options{})
	_, err := ledger.Begin(ctx, s, begun("refused"))
	said := (*Error)(nil)
	need.That(t, errors.As(err, &said) && said.Code == Permission && strings.Contains(err.Error(), "RESET session_replication_role"), "%v", err)
	need.Contains(t, saysOfGuards(opened(t, url, Options{})), "warn session_replication_role is replica for role replicator: what it writes in plain SQL is not guarded, and leaves no event → ALTER ROLE replicator RESET session_replication_role")
}

func saysOfGuards(s *Store) (said string) {
	for _, f := range s.Examine(ctx) {
		if f.Check == "guards" {
			said += f.Level + " " + f.Found + " → " + f.Do + "\n"
		}
	}
	return said
}

// Rows that are hidden by a policy of the database are no all-clear.
func TestRowsThatAreHidden(t *testing.T) {
	url := withRoles(t)
	psql(t, url, `CREATE ROLE hidden LOGIN IN ROLE indoubt_writer; ALTER TABLE indoubt.op ENABLE ROW LEVEL SECURITY; ALTER TABLE indoubt.ev DISABLE TRIGGER ev_refuse_delete`)
	t.Cleanup(func() { psql(t, url, `DROP ROLE hidden`) })
	for _, mode := range modes {
		s := opened(t, with(pgtest.As(url, "hidden"), mode), Options{})
		_, err := s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Limit: 10})
		need.That(t, err != nil && strings.Contains(err.Error(), "DISABLE ROW LEVEL SECURITY"), "%s: %v", mode, err)
	}
	said := saysOfGuards(opened(t, url, Options{}))
	need.Contains(t, said, "fail indoubt.op has row-level security")
	need.Contains(t, said, "fail trigger ev_refuse_delete of indoubt.ev is disabled")
}

// Amounts come as they are kept, whatever the user of the database is set to.
func TestAmountsAreWhole(t *testing.T) {
	url := made(t)
	psql(t, url, `CREATE ROLE roundish SUPERUSER LOGIN; ALTER ROLE roundish SET extra_float_digits = -15`)
	t.Cleanup(func() { psql(t, url, `DROP ROLE roundish`) })
	for _, mode := range modes {
		s := opened(t, with(pgtest.As(url, "roundish"), mode), Options{})
		amount := 0.0
		need.OK(t, database{s.handle}.View(ctx, func(tx store.Tx) error {
			return store.One(tx, []any{&amount}, `SELECT CAST(4200.55 AS double precision)`)
		}))
		need.That(t, amount == 4200.55, "%s: %v", mode, amount)
	}
}
