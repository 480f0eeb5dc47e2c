//go:build soak

package cli

import (
	"context"
	"database/sql"
	"testing"

	"indoubt/ledger/need"
)

func TestALockedLedgerSaysSo(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	at := b.at(1)
	db := need.Get(sql.Open("sqlite", b.ledger))(t)
	defer db.Close()
	conn := need.Get(db.Conn(context.Background()))(t)
	need.Get(conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"))(t)
	b.want(0, "list") // who looks does not wait
	a := b.json(1, "confirm", at, "--reason", "r")
	need.That(t, a.Error.Code == "locked" && a.Error.Hint != "", "%+v", a.Error)
	need.Get(conn.ExecContext(context.Background(), "ROLLBACK"))(t)
	b.want(0, "confirm", at, "--reason", "r")
}
