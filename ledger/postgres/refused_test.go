//go:build soak

package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// foreign is a connection to a ledger as another program has it.
func foreign(t *testing.T, url string) ledgertest.Foreign {
	conn := need.Get(pgx.Connect(ctx, url))(t)
	t.Cleanup(func() { conn.Close(ctx) })
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "json", OID: pgtype.JSONOID, Codec: pgtype.TextCodec{}})
	need.Get(conn.Exec(ctx, `SET search_path = indoubt`))(t)
	return ledgertest.Foreign{
		Postgres: true,
		Exec: func(statement string) error {
			_, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
			return err
		},
		Close: func() { need.OK(t, conn.Close(ctx)) },
		Rows: func(query string) []map[string]any {
			rows := need.Get(conn.Query(ctx, query, pgx.QueryExecModeSimpleProtocol))(t)
			return need.Get(pgx.CollectRows(rows, pgx.RowToMap))(t)
		},
	}
}

func TestRefused(t *testing.T) {
	ledgertest.Refused(t, foreign(t, made(t)))
}

func TestInvariantsUnderRandomSQL(t *testing.T) {
	ledgertest.RandomSQL(t, 1_000, func(t *testing.T, clock ledger.Clock) (ledgertest.Audited, ledgertest.Foreign) {
		url := made(t)
		return keyed(t, url, Options{Clock: clock, Steady: hostclock.With(clock)}), foreign(t, url)
	})
}

// Of two writers who do not see each other one is refused: it waits for the other.
func TestRefusedWhileTheOtherIsUnderWay(t *testing.T) {
	url := made(t)
	first, second := foreign(t, url), foreign(t, url)
	s := opened(t, url, Options{})
	const born = `INSERT INTO op (id, kind, deadline_at, actor, name, n, gate) SELECT '%s', 'k', deadline_at + 60000, 'eve', '%s', %s, '%s' FROM op WHERE id = 'a'`
	need.OK(t, first.Exec(`INSERT INTO intent (id, kind, key, actor) VALUES ('a', 'k', 'a', 'eve'), ('b', 'k', 'b', 'eve')`))
	for _, c := range []struct{ name, first, second, says string }{
		{"the same key (I4)", `INSERT INTO intent (id, kind, key, actor) VALUES ('c', 'k', 'c', 'eve')`,
			`INSERT INTO intent (id, kind, key, actor) VALUES ('d', 'k', 'c', 'eve')`, "op_by_name"},
		{"the same request (I3)", fmt.Sprintf(born, "e", "e", "0", "g"), fmt.Sprintf(born, "f", "f", "0", "g"), "op_by_gate"},
		{"the same key, said to be another time (I4)", fmt.Sprintf(born, "h", "h", "0", ""), fmt.Sprintf(born, "i", "h", "1", ""), "op_by_name"},
		{"an attempt that ends", `INSERT INTO settle (attempt, outcome, actor) VALUES ('a.1', 'uncertain', 'eve')`,
			`INSERT INTO settle (attempt, outcome, actor) VALUES ('a.1', 'committed', 'eve')`, "no first attempt of this operation is in flight"},
		{"a change (I7)", `UPDATE op SET version = 2, change_id = 'x', reason = 'r', state = 'uncertain', unproven = 1, facts = '{"outcome":"uncertain"}' WHERE id = 'b'`,
			`UPDATE op SET version = 2, change_id = 'y', reason = 'r', gate = '', verdict = 'landed' WHERE id = 'b'`, "version + 1"},
	} {
		need.OK(t, first.Exec("BEGIN"))
		need.OK(t, first.Exec(c.first), c.name)
		said := make(chan error, 1)
		go func() { said <- second.Exec(c.second) }()
		for end := time.Now().Add(5 * time.Second); len(said) == 0 && time.Now().Before(end) &&
			scalar(t, s, `SELECT count(*) FROM pg_locks WHERE NOT granted`) == 0; time.Sleep(time.Millisecond) {
		}
		need.That(t, len(said) == 0, "%s: it did not wait", c.name)
		need.OK(t, first.Exec("COMMIT"))
		err := <-said
		need.That(t, err != nil && strings.Contains(err.Error(), c.says), "%s: %v, want %q", c.name, err, c.says)
	}
}

// A key that no index takes is refused in words, and is not sent.
func TestAKeyThatIsTooLong(t *testing.T) {
	var key []rune
	for range 2000 {
		key = append(key, 0x4e00+rand.Int32N(20_000))
	}
	_, err := ledger.Begin(ctx, opened(t, made(t), Options{}), begun(string(key)))
	need.That(t, errors.Is(err, ledger.ErrGuard) && strings.Contains(err.Error(), "too long for PostgreSQL to find it by") &&
		!strings.Contains(err.Error(), "SQLSTATE"), "%v", err)
}
