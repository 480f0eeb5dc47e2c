package sqlite

import (
	"testing"

	"modernc.org/libc"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A transaction is written to the log with one call of the system, whole.
func TestATransactionIsWrittenAtOnce(t *testing.T) {
	s, _ := openTest(t)
	begin(t, s)
	writes, host := 0, hostWrite
	hostWrite = func(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32 {
		writes++
		return host(tls, file, buf, n, at)
	}
	defer func() { hostWrite = host }()
	o := begin(t, s).Operation
	settleAs(t, s, o.LiveAttempt, ledger.OutcomeCommitted)
	need.That(t, writes == 2, "%d writes", writes)
}

// What a transaction that was undone has left unwritten is never written over what
// another writer has put in its place.
func TestI10_WhatWasUndoneIsNotWritten(t *testing.T) {
	s, _ := openTest(t)
	begin(t, s)
	conn := s.writer.conn
	exec := func(query string) {
		t.Helper()
		need.Get(conn.ExecContext(ctx, query))(t)
	}
	s.writer.checkpoint()          // else the log is read, and written first, when the transaction is undone
	exec(`PRAGMA cache_size = 10`) // so that pages are written before the transaction ends
	exec(`BEGIN IMMEDIATE`)
	exec(`INSERT INTO meta VALUES ('long', hex(randomblob(300000)))`)
	held := func() (n int) {
		framesOf.Range(func(_, f any) bool { n += len(f.(*frames).held); return true })
		return n
	}
	need.That(t, held() > 0, "nothing was held")
	exec(`ROLLBACK`)
	need.That(t, held() == 0, "%d bytes are held", held())

	other := rawDB(t, s.path)
	for range 100 {
		need.Get(other.Exec(`INSERT INTO meta SELECT hex(randomblob(8)), hex(randomblob(2000))`))(t)
	}
	begin(t, s)
	var ok string
	need.OK(t, other.QueryRow(`PRAGMA integrity_check`).Scan(&ok))
	need.That(t, ok == "ok", "%s", ok)
	var rows int
	need.OK(t, other.QueryRow(`SELECT count(*) FROM meta WHERE length(value) = 4000`).Scan(&rows))
	need.That(t, rows == 100, "%d rows of another writer", rows)
}
